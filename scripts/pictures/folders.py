"""Draws the folders of the tree, each above all folders that it may include, from the table arrows.json."""

from pictures import svg
from pictures.layers import Layout

TOP, ROW, HEIGHT = 74, 66, 36
COLORS = {"ir": svg.BLUE, "passes": svg.ORANGE, "models": svg.GREEN, "backends": svg.PURPLE, "frontends": svg.GREY}


def reached(arrows, folder):
    """All folders that a folder may include, directly or indirectly."""
    seen, left = set(), list(arrows[folder])
    while left:
        if (other := left.pop()) not in seen:
            seen.add(other)
            left += arrows[other]
    return seen


def shortest(arrows):
    """The arrows without redundant ones (transitive reduction)."""
    return {
        folder: [
            other for other in included
            if not any(other in reached(arrows, between) for between in included if between != other)
        ]
        for folder, included in arrows.items()
    }  # fmt: skip


def floors(folders, arrows):
    """Row per folder, the lowest last: a folder is one row above the highest folder that it includes."""
    floor = {}
    for folder in folders:  # lowest first
        floor[folder] = max((floor[other] + 1 for other in arrows[folder]), default=0)
    return {folder: max(floor.values()) - height for folder, height in floor.items()}


def width_of(folder):
    parent, _, name = folder.rpartition("/")
    return max(6.4 * (len(parent) + 1), 7.6 * len(name), 48) + 16


def label(picture, x, y, folder):
    """Draws the name, in two lines if it has a parent, to keep boxes narrow."""
    parent, _, name = folder.rpartition("/")
    if parent:
        picture.text(x, y + 14, f"{parent}/", 10.5, svg.FAINT, mono=True)
    picture.text(x, y + (28 if parent else 23), name, 12.5, mono=True)


def draw(table):
    """Draws the picture. `table` maps a folder to the folders that it may include; None: all of them."""
    folders = [name for name in table if name != "tests"]
    arrows = {name: folders[: folders.index(name)] if table[name] is None else table[name] for name in folders}
    edges = [(name, other) for name, others in shortest(arrows).items() for other in others]
    layout = Layout(folders, edges, width_of, gap=18, rows=floors(folders, arrows))
    margin = 28
    bottom = TOP + ROW * (len(layout.rows) - 1) + HEIGHT
    picture = svg.Picture(layout.span + 2 * margin, bottom + 26, "Which folder may include which")
    picture.text(margin, 30, "Folders and what they may include", 16, anchor="start", bold=True)
    picture.text(margin, 50, "A folder may include the folders that can be reached along its arrows.", 12,
                 svg.FAINT, "start")  # fmt: skip
    layout.draw_edges(picture, margin, TOP, ROW, HEIGHT)
    for name in folders:
        x, y = layout.x[name] + margin, TOP + ROW * layout.row[name]
        width = layout.width[name]
        picture.box(x - width / 2, y, width, HEIGHT, COLORS[name.split("/")[0]])
        label(picture, x, y, name)
    return picture
