#!/usr/bin/env python3
"""Counts the partitions that XNNPACK makes of each family's graphs in LiteRT, as a Markdown table.

    build/vendors/litert/bin/python scripts/measure_partitions.py            prints the table
    build/vendors/litert/bin/python scripts/measure_partitions.py --write    replaces it in the README of TFLite files

Exports the golden checkpoints of each family for the target litert, in f32 and with two widths, and loads each graph. A
row has the family's graphs, the share of its ops that XNNPACK takes, and the smallest and largest number of partitions
of a graph per kind of shard. The rest of the ops runs on LiteRT's own kernels between the partitions.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from confirm_with_litert import UNIT, Loader

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "backends/formats/tflite/README.md"
BEGIN, END = "<!-- partitions:begin -->", "<!-- partitions:end -->"
# Kinds of shards per column; a layer in one shard counts as its MoE.
MIXERS, EXPERTS = ("attention",), ("moe", "mlp", "layers")


class Family:
    """Counts of all graphs of a family."""

    def __init__(self):
        self.graphs = self.loaded = self.ops = self.taken = 0
        self.partitions = defaultdict(list)  # by kind of shard

    def add(self, kind, graph):
        self.graphs += 1
        self.loaded += "error" not in graph
        self.ops += len(graph["ops"])
        self.taken += sum(op["preferred"] == UNIT for op in graph["ops"])
        if "partitions" in graph:
            self.partitions[kind].append(graph["partitions"])

    def range_of(self, kinds):
        found = [count for kind in kinds for count in self.partitions[kind]]
        if not found:
            return "–"
        return f"{min(found)}–{max(found)}" if min(found) < max(found) else str(max(found))

    def row(self, name):
        other = [kind for kind in self.partitions if kind not in MIXERS + EXPERTS]
        return [name, f"{self.loaded} of {self.graphs}", f"{100 * self.taken / max(self.ops, 1):.1f} %", self.range_of(MIXERS),
                self.range_of(EXPERTS), self.range_of(other)]


def measure(moec, loader, cases="*"):
    """The counts per family of the golden cases that match a pattern."""
    families = defaultdict(Family)
    for config in sorted((ROOT / "tests/golden").glob(f"{cases}/config.json")):
        with tempfile.TemporaryDirectory() as scratch:
            out = Path(scratch) / "out"
            subprocess.run([moec, "export", config.parent, "--out", out, "--target", "litert", "--tokens", "1,8", "-q"], check=True)
            manifest = json.loads((out / "manifest.json").read_text())
            family = families[manifest["model"]["family"]]
            for shard in manifest["shards"]:
                for width in shard["widths"]:
                    _, graph = loader.compile(out / width["file"]["path"], width["function"])
                    family.add(shard["kind"], graph)
    return families


def table(families):
    total = Family()
    for family in families.values():
        total.graphs, total.loaded = total.graphs + family.graphs, total.loaded + family.loaded
        total.ops, total.taken = total.ops + family.ops, total.taken + family.taken
        for kind, counts in family.partitions.items():
            total.partitions[kind] += counts
    rows = [["family", "graphs loaded", "ops on XNNPACK", "partitions of mixers", "of MoE and MLP", "of heads"], ["---"] * 6]
    rows += [families[name].row(f"`{name}`") for name in sorted(families)] + [total.row("all")]
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", default=ROOT / "build/release/frontends/moec")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    text = table(measure(options.moec, Loader()))
    if not options.write:
        print(text, end="")
        return 0
    before, rest = README.read_text().split(BEGIN)
    README.write_text(before + BEGIN + "\n" + text + END + rest.split(END)[1])
    return 0


if __name__ == "__main__":
    sys.exit(main())
