#!/usr/bin/env python3
"""Measures the cost of each form of --weights for tinymoe, and prints the results as a Markdown table.

    scripts/measure_weights.py [--moec BINARY] [--windows N] [--form NAME]… [--calibration TEXT]   prints the table
    scripts/measure_weights.py [--moec BINARY] --write [FILE]                  replaces it in FILE
    scripts/measure_weights.py [--moec BINARY] --collected                     on texts like those of the training
    scripts/measure_weights.py [--moec BINARY] --pin                           writes the limits that tests check

FILE defaults to tests/data/README.md; the table is between its lines figures:begin and figures:end. For each row, `moec
compare` compares an export of models/tinymoe with the float export of the same target and element type, on all windows of
tests/data/tinymoe_heldout.bin, or on N evenly spaced ones. Calibrated rows use `moec calibrate` on
tests/data/tinymoe_calibration.bin, or on TEXT. Bits are bits per weight of the experts, including scales and palettes. The
table of all windows takes about ten minutes on one core.

With --collected the texts are 128 windows of files of this machine, 32 per domain, collected like the training texts of
tinymoe (training/tinymoe/texts.py): training files for the calibration, held-out files for the comparison. These are
third-party texts, which are not in the repository and differ between machines.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
from pathlib import Path

REPO = Path(__file__).resolve().parents[1]
TINYMOE = REPO / "models/tinymoe"
TEXTS = {name: REPO / f"tests/data/tinymoe_{name}.bin" for name in ("calibration", "heldout")}
WINDOW = 256
PINS, PINNED_WINDOWS = REPO / "tests/data/weight_figures.json", 12
BEGIN, END = "<!-- figures:begin -->", "<!-- figures:end -->"
ONNX = ("--target", "onnx", "--dtype", "f32", "--form", "matmul")
ANE = ("--target", "ane")


@dataclasses.dataclass(frozen=True)
class Form:
    name: str
    weights: str
    target: tuple = ONNX
    calibrated: bool = False
    calibration: Path = None  # text of the calibration; None: that of TEXTS


FORMS = [
    Form("int8 experts", "experts=int8"),
    Form("int8", "int8"),
    Form("int4:32", "experts=int4:32,attn=int8,head=int8"),
    Form("int4:32 calibrated", "experts=int4:32,attn=int8,head=int8", calibrated=True),
    Form("int4-lut:g16", "experts=int4-lut:g16,attn=int8,head=int8", ANE),
    Form("int4-lut:g16 calibrated", "experts=int4-lut:g16,attn=int8,head=int8", ANE, True),
    Form("int3-lut:g16", "experts=int3-lut:g16", ANE),
    Form("int3-lut:g16 calibrated", "experts=int3-lut:g16", ANE, True),
    Form("auto:3.0", "experts=auto:3.0", ANE, True),
    Form("int2-lut:g16", "experts=int2-lut:g16", ANE),
    Form("int2-lut:g16 calibrated", "experts=int2-lut:g16", ANE, True),
]


def collect_texts(folder):
    """Collects texts that replace the repository's texts."""
    import numpy as np
    from training.tinymoe.texts import DOMAINS, load_data
    from training.tinymoe.texts import windows as draw

    data, _ = load_data()
    for name, side, seed in (("calibration", 0, 5), ("heldout", 1, 6)):
        rng = np.random.default_rng(seed)
        TEXTS[name] = folder / f"{name}.bin"
        TEXTS[name].write_bytes(b"".join(
            draw(data[domain][side], 32, rng)[:, :WINDOW].astype(np.uint8).tobytes() for domain in DOMAINS))


def spread(text, windows):
    """Returns `windows` windows of a text, evenly spaced."""
    all_windows = len(text) // WINDOW
    starts = [all_windows * i // windows * WINDOW for i in range(windows)]
    return b"".join(text[start:start + WINDOW] for start in starts)


class Measurer:
    """Makes exports once and shares them among rows. `windows` is the number of compared windows."""

    def __init__(self, binary, folder, windows):
        self.binary, self.folder, self.windows = str(binary), Path(folder), windows
        self.folders = {}
        self.text = self.folder / "heldout"
        self.text.write_bytes(spread(TEXTS["heldout"].read_bytes(), windows))

    def moec(self, *words):
        run = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"moec {' '.join(map(str, words))}\n{run.stdout}{run.stderr}")
        return run.stdout

    def made(self, key, *words):
        """Returns the output folder of a command; runs the command on the first call only."""
        if key not in self.folders:
            out = self.folder / str(len(self.folders))
            self.moec(*words, "--out", out, "--quiet")
            self.folders[key] = out
        return self.folders[key]

    def calibration(self, form):
        """The calibration of the form's text; automatic choice of bits also needs sensitivities."""
        more = ("--sensitivity",) if "auto:" in form.weights else ()
        text = form.calibration or TEXTS["calibration"]
        return self.made((text, more), "calibrate", TINYMOE, "--text", text, *more)

    def plain(self, target):
        return self.made(target, "export", TINYMOE, *target, "--tokens", WINDOW // 4)

    def coded(self, form):
        more = ("--calibration", self.calibration(form)) if form.calibrated else ()
        return self.made(form, "export", TINYMOE, *form.target, "--tokens", WINDOW // 4, "--weights",
                         form.weights, *more)

    def compare(self, form):
        """The report of `moec compare --json`, and the experts' bits per weight."""
        plain, coded = self.plain(form.target), self.coded(form)
        report = json.loads(self.moec("compare", plain, coded, "--text", self.text, "--window", WINDOW,
                                      "--quiet", "--json"))
        return report | {"expert_bits": expert_bits(plain, coded)}


def expert_bytes(folder):
    """Bytes of an export's expert shards, and the size of its element type."""
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = [shard for shard in manifest["shards"] if shard["moe_layers"]]
    return sum(shard["weight_bytes"] for shard in shards), {"f32": 4, "f16": 2}[manifest["build"]["dtype"]]


def expert_bits(plain, coded):
    """Bits per weight of the experts. All other weights of the shards are equal in both exports."""
    config = json.loads((TINYMOE / "config.json").read_text())
    weights = (3 * config["num_hidden_layers"] * config["num_local_experts"] * config["hidden_size"]
               * config["moe_intermediate_size"])
    (all_plain, size), (all_coded, _) = expert_bytes(plain), expert_bytes(coded)
    return 8 * (all_coded - (all_plain - weights * size)) / weights


def row(form, report):
    kl, top1 = report["kl"], report["top1"]
    error = "" if kl["standard_error"] is None else f" ± {kl['standard_error']:.5f}"
    return [form.name, f"`{form.weights}`", f"{report['expert_bits']:.2f}", f"{kl['mean']:.5f}{error}",
            f"{100 * top1['mean']:.1f} %", f"{report['bits']['difference']['mean']:+.4f}"]


def table(rows):
    lines = [["form", "`--weights`", "bits", "KL (nats)", "same top-1", "bits/byte"], ["---"] * 6, *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def replace_table(file, text):
    before, rest = file.read_text().split(BEGIN)
    file.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{rest.split(END)[1]}")


def pin(measurer):
    """Writes the limits of each form for tests/peers/test_weight_quality.py."""
    reports = {form.name: measurer.compare(form) for form in FORMS}
    forms = {name: {"bits": round(report["expert_bits"], 4), "kl": round(report["kl"]["mean"], 7),
                    "top1": round(report["top1"]["mean"], 5)} for name, report in reports.items()}
    PINS.write_text(json.dumps({"windows": measurer.windows, "forms": forms}, indent=2) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moec", type=Path, default=REPO / "build/release/frontends/moec", metavar="BINARY")
    parser.add_argument("--windows", type=int, default=TEXTS["heldout"].stat().st_size // WINDOW)
    parser.add_argument("--form", action="append", choices=[form.name for form in FORMS], metavar="NAME")
    parser.add_argument("--calibration", type=Path, metavar="TEXT", default=TEXTS["calibration"])
    parser.add_argument("--write", type=Path, nargs="?", const=REPO / "tests/data/README.md", metavar="FILE")
    parser.add_argument("--pin", action="store_true")
    parser.add_argument("--collected", action="store_true", help="use texts of this machine")
    args = parser.parse_args()
    TEXTS["calibration"] = args.calibration
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        if args.pin:
            pin(Measurer(args.moec, folder, PINNED_WINDOWS))
            return
        if args.collected:
            collect_texts(Path(folder))
        measurer = Measurer(args.moec, folder, args.windows)
        for form in FORMS:
            if args.form and form.name not in args.form:
                continue
            rows.append(row(form, measurer.compare(form)))
            print(" | ".join(rows[-1]), file=sys.stderr)
    if args.write:
        replace_table(args.write, table(rows))
    else:
        print(table(rows))


if __name__ == "__main__":
    main()
