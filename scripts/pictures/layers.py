"""Places the nodes of a directed acyclic graph in rows, such that every edge points downwards.

An edge that spans several rows gets a waypoint in each row between, so that the edge avoids the nodes of that row.
Within a row the order follows the neighbours' positions.
"""

ROUNDS = 24  # up and down sweeps; positions of the graphs drawn here converge long before


def rows_of(nodes, edges):
    """Row per node: one below the lowest predecessor."""
    rows = {}
    for node in nodes:  # in topological order
        rows[node] = max((rows[source] + 1 for source, target in edges if target == node), default=0)
    return rows


class Layout:
    """x of the centre and row of each node, and the paths of edges as lists of (x, row)."""

    def __init__(self, nodes, edges, width_of, gap=14.0, rows=None, column_of=lambda node: 0):
        """`column_of` orders the nodes of a row; nodes with equal numbers are ordered freely."""
        self.column = {node: column_of(node) for node in nodes}
        self.row = dict(rows or rows_of(nodes, edges))
        self.width = {node: width_of(node) for node in nodes}
        self.gap = gap
        self.chains = [self._chain(edge) for edge in edges]
        count = max(self.row.values()) + 1
        self.rows = [[node for node in self.row if self.row[node] == row] for row in range(count)]
        self.near = {node: ([], []) for node in self.row}  # neighbours above, below
        for chain in self.chains:
            for upper, lower in zip(chain, chain[1:]):
                self.near[upper][1].append(lower)
                self.near[lower][0].append(upper)
        self._place()

    def _chain(self, edge):
        """Splits an edge into source, waypoints and target."""
        source, target = edge
        chain = [source]
        for row in range(self.row[source] + 1, self.row[target]):
            waypoint = (source, row)  # edges of one source share their waypoints
            self.row.setdefault(waypoint, row)
            self.width.setdefault(waypoint, 2.0)
            self.column.setdefault(waypoint, self.column[source] or self.column[target])
            chain.append(waypoint)
        return [*chain, target]

    def _place(self):
        self.x = {}
        for row in self.rows:
            self._spread(row, [0.0] * len(row))
        for turn in range(ROUNDS):
            down = turn % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                wanted = {node: self._wanted(node, down, turn) for node in row}
                row.sort(key=lambda node, wanted=wanted: (self.column[node], wanted[node]))
                self._spread(row, [wanted[node] for node in row])
        left = min(self.x[node] - self.width[node] / 2 for node in self.x)
        self.x = {node: x - left for node, x in self.x.items()}
        self.span = max(self.x[node] + self.width[node] / 2 for node in self.x)

    def _wanted(self, node, down, turn):
        above, below = self.near[node]
        near = (above if down else below) if turn < ROUNDS - 4 else above + below
        near = near or above or below
        return sum(self.x[other] for other in near) / len(near) if near else self.x[node]

    def _spread(self, row, wanted):
        """Places the nodes of a row, in this order, as close to the wanted positions as their widths allow."""
        # Nodes that would overlap form a block, placed at the mean of the positions that its nodes prefer.
        blocks = []  # [first index, count, position of its first node]
        offsets = [0.0]
        for left, right in zip(row, row[1:]):
            offsets.append(offsets[-1] + (self.width[left] + self.width[right]) / 2 + self.gap)
        for index in range(len(row)):
            blocks.append([index, 1, wanted[index] - offsets[index]])
            while len(blocks) > 1 and blocks[-2][2] > blocks[-1][2]:
                _, count, place = blocks.pop()
                blocks[-1][2] = (blocks[-1][2] * blocks[-1][1] + place * count) / (blocks[-1][1] + count)
                blocks[-1][1] += count
        for first, count, place in blocks:
            for index in range(first, first + count):
                self.x[row[index]] = place + offsets[index]

    def draw_edges(self, picture, left, top, pitch, height):
        """Draws every edge. Rows are `pitch` apart, boxes are `height` high. Shared segments are drawn once."""
        drawn = set()
        for chain in self.chains:
            for upper, lower in zip(chain, chain[1:]):
                if (upper, lower) in drawn:
                    continue
                drawn.add((upper, lower))
                y = top + pitch * self.row[upper] + height
                points = [(left + self.x[upper], y), (left + self.x[lower], y + pitch - height)]
                waypoint = lower is not chain[-1]
                if waypoint:
                    points.append((left + self.x[lower], y + pitch))
                picture.path(points, arrow=not waypoint)
