"""Draws an MoE layer as printed by `moec opt`: before, after unroll_experts, after bank_experts."""

import pathlib
import re

from pictures import svg
from pictures.layers import Layout

SHARD = pathlib.Path(__file__).with_name("moe_layer.ir")
# Title of a panel, text after the count of ops, passes to run.
PANELS = [
    ("model form", "ops, one of them for all experts", None),
    ("unroll_experts", "ops: one subgraph per expert", "unroll_experts"),
    ("bank_experts", "ops: all experts at once", "bank_experts"),
]
OP = re.compile(r"\s*%(\S+) = (\w+) (.*) : \w+(\[[\d,]*\])")
LEGEND = [
    ("projection, inputs → outputs", svg.BLUE),
    ("routing weights", svg.ORANGE),
    ("other tensor math", svg.GREY),
    ("composite op, lowered by a separate pass", svg.PURPLE),
]
TOP, ROW, HEIGHT, MARGIN, GAP = 112, 58, 34, 24, 40
PROJECTIONS, COMPOSITES = {"linear"}, {"soft_moe", "router"}


class Shard:
    """The ops of a shard in text form that compute on tokens, without weights and values derived from weights."""

    def __init__(self, text):
        self.op, self.channels, self.edges = {"hidden": "input"}, {"hidden": 8}, []
        self.weight = {}  # projection -> its weight's name
        for line in text.splitlines():
            if line.strip().startswith("output"):
                self._add("moe_out", "output", [line.split("%")[1].strip()])
            elif found := OP.match(line):
                name, op, words, shape = found.groups()
                operands = re.findall(r"%([\w.]+)", words)
                sources = [operand for operand in operands if operand in self.op]
                if sources:
                    self._add(name, op, sources)
                    self.channels[name] = int(shape[1:-1].split(",")[1])
                    self.weight[name] = operands[-1].removesuffix(".weight")

    def _add(self, name, op, sources):
        self.op[name] = op
        self.edges += [(source, name) for source in dict.fromkeys(sources)]

    def count(self):
        return len(self.op) - 2  # excludes input and output

    def words(self, name):
        """Two lines of a box: weight and channels of a projection, or an op and the name of its value."""
        if self.op[name] in PROJECTIONS:
            source = next(source for source, target in self.edges if target == name)
            return short(self.weight[name]), f"{self.channels[source]} → {self.channels[name]}"
        return self.op[name], short(name)

    def colors(self, name):
        op = self.op[name]
        if op in PROJECTIONS:
            return svg.BLUE
        if op in COMPOSITES:
            return svg.PURPLE
        if op in ("input", "output"):
            return svg.GREEN
        return svg.ORANGE if short(name) in ("routing", "routed") else svg.GREY


def short(name):
    """The last part of a value's name; empty for a numbered value."""
    return "" if name.isdigit() else name.rsplit(".", 1)[-1]


def width_of(shard, name):
    first, second = shard.words(name)
    return max(7.0 * len(first), 6.2 * len(second), 36) + 12


def column_of(shard, name):
    """Column of a value: experts by index, with the router on their left."""
    if found := re.match(r"experts\.(\d+)\.", name):
        return int(found[1]) + 1
    sources = {column_of(shard, source) for source, target in shard.edges if target == name}
    return sources.pop() if len(sources) == 1 else 0


def draw_shard(picture, shard, left, width):
    """Draws the graph of a shard in the middle of a panel; returns the y of its end."""
    layout = laid_out(shard)
    left += (width - layout.span) / 2
    layout.draw_edges(picture, left, TOP, ROW, HEIGHT)
    for name in shard.op:
        x, y, box = left + layout.x[name], TOP + ROW * layout.row[name], layout.width[name]
        picture.box(x - box / 2, y, box, HEIGHT, shard.colors(name))
        first, second = shard.words(name)
        picture.text(x, y + (15 if second else 21), first, 11.5, mono=True)
        picture.text(x, y + 28, second, 10, svg.FAINT, mono=True)


def laid_out(shard):
    return Layout(list(shard.op), shard.edges, lambda name: width_of(shard, name), gap=9,
                  column_of=lambda name: column_of(shard, name))  # fmt: skip


def draw_legend(picture, y):
    left = MARGIN
    for words, colors in LEGEND:
        picture.box(left, y, 18, 14, colors, 3)
        picture.text(left + 26, y + 11.5, words, 11.5, svg.FAINT, "start")
        left += 6.6 * len(words) + 56


def draw(opt):
    """Draws the picture. `opt` runs passes on the text of a shard and returns the resulting text."""
    text = SHARD.read_text(encoding="utf-8")
    shards = [Shard(opt(SHARD, passes) if passes else text) for _, _, passes in PANELS]
    layouts = [laid_out(shard) for shard in shards]
    widths = [max(layout.span, 212) for layout in layouts]
    height = TOP + ROW * max(len(layout.rows) for layout in layouts)
    picture = svg.Picture(
        sum(widths) + GAP * (len(widths) - 1) + 2 * MARGIN, height + 40, "An MoE layer before and after two passes")
    picture.text(MARGIN, 32, "One MoE layer, two ways to make its experts static", 16, anchor="start", bold=True)
    picture.text(MARGIN, 52, "3 experts, 2 per token. Shards as printed by moec opt; weights are omitted.", 12, svg.FAINT, "start")  # fmt: skip
    draw_legend(picture, height + 4)
    left = MARGIN
    for (title, more, _), shard, width in zip(PANELS, shards, widths):
        picture.text(left + width / 2, 80, title, 13, bold=True, mono=True)
        picture.text(left + width / 2, 98, f"{shard.count()} {more}", 11.5, svg.FAINT)
        draw_shard(picture, shard, left, width)
        left += width + GAP
    return picture
