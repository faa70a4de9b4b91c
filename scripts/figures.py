#!/usr/bin/env python3
"""Exports and validates every golden case, and prints the results as two Markdown tables.

    scripts/figures.py [--moec BINARY] [--case NAME]…       prints the tables
    scripts/figures.py [--moec BINARY] --write [FILE]       replaces them in FILE

FILE defaults to tests/golden/README.md. The text between its lines

    <!-- figures:begin -->
    <!-- figures:end -->

is replaced; all other text stays unchanged. The first table has ONNX exports, validated in f32 and f16; the second has
Core ML exports, validated in f16. Each row has the worst result over all shards of a case, from `moec validate --json`.
Exits with 1, after writing, if a case fails validation.

    scripts/figures.py --qnn build/vendors/qnn/bin/python [--chip v73,v75,v79] [--write [FILE]]

prints, or writes to backends/targets/README.md, the results of Qualcomm's compiler and emulator for each chip, on the
cases whose models generate text (scripts/confirm_with_qnn.py, with the packages of scripts/install_vendors.sh). Exits
with 1 if an op is not on the NPU. The last row covers all cases.
"""

import argparse
import functools
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/golden"
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
HEADS = ["case", "mode", "min. cosine", "max. rel. L2", "same experts", "min. margin",
         "top-1", "KL", "greedy", "passed"]  # fmt: skip
# Title of the table, target of the export, precisions of the validation.
TABLES = [
    ("ONNX (`--target onnx`)", "onnx", ["f32", "f16"]),
    ("Core ML packages (`--target ane`)", "ane", ["f16"]),
]


def moec(binary, *words):
    """Runs moec. Exit code 1, a missed threshold, is a result and not an error."""
    run = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 1):
        sys.exit(f"moec {' '.join(map(str, words))}\n{run.stderr}")
    return run


def row(case, precision, report):
    """The cells of one case: the worst values over the shards in one report of `moec validate --json`."""
    alone = [shard["alone"] for shard in report["shards"]]
    alone += [shard["cache"] for shard in report["shards"] if "cache" in shard]
    routers = [shard["router"] for shard in report["shards"] if "router" in shard]
    tokens = sum(router["tokens"] for router in routers)
    same = sum(router["same_experts"] for router in routers)
    logits, greedy = report["logits"], report["greedy"]
    return [
        case,
        precision,
        f"{min(c['cosine'] for c in alone):.9f}",
        f"{max(c['relative_l2'] for c in alone):.1e}",
        f"{same} of {tokens}" if routers else "–",
        f"{min(router['least_margin'] for router in routers):.1e}" if routers else "–",
        f"{logits['same_top1']} of {logits['tokens']}",
        f"{logits['mean_kl']:.0e}",
        f"{greedy['equal']} of {greedy['wanted']}" if greedy["wanted"] else "–",
        "yes" if report["ok"] else "NO",
    ]


def table(title, rows, heads=HEADS):
    lines = [heads, ["---"] * len(heads), *rows]
    return f"{title}:\n\n" + "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def rows_of(binary, golden, target, precisions):
    """One row per precision of a golden case, which is exported once for the target."""
    checkpoint = golden / json.loads((golden / "golden.json").read_text())["checkpoint"]
    with tempfile.TemporaryDirectory() as folder:
        moec(binary, "export", checkpoint, "--out", f"{folder}/out", "--target", target,
             "--tokens", "1,16", "-q")  # fmt: skip
        for precision in precisions:
            run = moec(binary, "validate", f"{folder}/out", "--golden", golden,
                       "--precision", precision, "--json")  # fmt: skip
            yield row(golden.name, precision, json.loads(run.stdout))


def measured(binary, goldens):
    """Measures all tables; returns [(title, rows)]."""
    return [
        (title, [cells for golden in goldens for cells in rows_of(binary, golden, target, precisions)])
        for title, target, precisions in TABLES
    ]


class EmulatorFigures:
    """Figures of files in one chip's emulator: the minimum cosine of files and of chains, and counts."""

    def __init__(self, measured=None):
        graphs = measured["graphs"] if measured else []
        chain = measured["chain"] if measured else {"cosine": 1, "same_top1": 0, "rows": 0}
        ops = [op["preferred"] == "HTP" for graph in graphs for op in graph["ops"]]
        self.counts = [sum(ops), len(ops), chain["same_top1"], chain["rows"]]
        self.least = [min((graph.get("cosine", 1) for graph in graphs), default=1), chain["cosine"]]

    def with_those_of(self, other):
        both = EmulatorFigures()
        both.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts)]
        both.least = [min(pair) for pair in zip(self.least, other.least)]
        return both

    def cells(self):
        placed, ops, same, rows = self.counts
        shard, chain = self.least
        return [f"{placed} of {ops}", f"{shard:.7f}", f"{chain:.6f}", f"{same} of {rows}"]


def emulated(binary, python, chips, golden):
    """Returns the figures of one golden case, exported for qnn, per chip. Ignores exit code 1 (a low cosine): the row
    shows it."""
    checkpoint = golden / json.loads((golden / "golden.json").read_text())["checkpoint"]
    widths = "1,16" if golden.name.startswith("tiny") else "1,24"
    with tempfile.TemporaryDirectory() as folder:
        moec(binary, "export", checkpoint, "--out", f"{folder}/out", "--target", "qnn", "--tokens", widths, "-q")
        for chip in chips:
            command = [python, ROOT / "scripts/confirm_with_qnn.py", f"{folder}/out", "--chip", chip, "--golden", golden,
                       "--measured", f"{folder}/measured.json"]
            run = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
            if run.returncode not in (0, 1):
                sys.exit(f"{golden.name}: {run.stderr}")
            yield EmulatorFigures(json.loads(pathlib.Path(f"{folder}/measured.json").read_text()))


def replaced(page, tables):
    """Returns the page with the tables between its markers; None if the page lacks the markers."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(END) < page.index(BEGIN):
        return None
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables}\n{END}{rest.split(END)[1]}"


def write(file, tables):
    page = replaced(file.read_text(encoding="utf-8"), tables)
    if page is None:
        sys.exit(f"{file} must contain the lines {BEGIN} and {END} once each, in this order")
    file.write_text(page, encoding="utf-8")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", default=str(ROOT / "build/release/frontends/moec"))
    parser.add_argument("--case", action="append", help="only this case (repeatable); default: all")
    parser.add_argument("--qnn", metavar="PYTHON", help="a Python with onnxruntime-qnn")
    parser.add_argument("--chip", default="v73,v75,v79",
                        help="with --qnn: architectures of the NPU (default: v73,v75,v79)")
    parser.add_argument("--write", nargs="?", const="", metavar="FILE")
    return parser.parse_args()


def writes_text(golden):
    return "greedy" in json.loads((golden / "golden.json").read_text())


def qnn_table(chips, results):
    """Formats the table. `results` maps a case to the figures per chip. Uses one set of columns if all chips agree."""
    title, heads = f"Qualcomm's emulator, {', '.join(chips)}", ["ops on HTP", "min. cosine of a shard", "chain", "top-1"]
    if all(each.cells() == of_case[0].cells() for of_case in results.values() for each in of_case):
        results = {case: of_case[:1] for case, of_case in results.items()}
        title += ", all of which give these figures" if len(chips) > 1 else ""
    else:
        heads = [f"{chip}: {what}" for chip in chips for what in heads]
    everything = [functools.reduce(EmulatorFigures.with_those_of, of_chip) for of_chip in zip(*results.values())]
    rows = [[case, *(cell for each in of_case for cell in each.cells())]
            for case, of_case in {**results, "all": everything}.items()]
    return table(title, rows, ["case", *heads])


def qnn_results(options, goldens):
    """Returns (tables, True if all ops are on the NPU, page of the tables)."""
    chips = options.chip.split(",")
    results = {golden.name: list(emulated(options.moec, options.qnn, chips, golden))
               for golden in goldens if writes_text(golden)}
    everywhere = all(each.counts[0] == each.counts[1] for of_case in results.values() for each in of_case)
    return qnn_table(chips, results), everywhere, ROOT / "backends/targets/README.md"


def validated(options, goldens):
    """Returns the results of `moec validate`: (tables, True if all cases pass, page)."""
    results = measured(options.moec, goldens)
    passed = all(cells[-1] == "yes" for _, rows in results for cells in rows)
    return "\n".join(table(title, rows) for title, rows in results), passed, GOLDEN / "README.md"


def main():
    options = parse_arguments()
    goldens = [path.parent for path in sorted(GOLDEN.glob("*/golden.json"))]
    goldens = [golden for golden in goldens if not options.case or golden.name in options.case]
    tables, passed, page = (qnn_results if options.qnn else validated)(options, goldens)
    if options.write is None:
        print(tables, end="")
    else:
        write(pathlib.Path(options.write or page), tables)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
