#!/usr/bin/env python3
"""Lets Rockchip's compiler and simulator judge an export: which ops the NPU takes, and what it computes.

    scripts/install_vendors.sh rknn                          # 1.5 GB
    moec export models/tinymoe --out out/tinymoe-rknn --target rknn --tokens 1,16
    build/vendors/rknn/bin/python scripts/confirm_with_rknn.py out/tinymoe-rknn --chip rk3588 --golden tests/golden/tinymoe
    moec check out/tinymoe-rknn --chip rk3588 --measured measured.json

No device is needed. Each file is compiled for the chip without quantisation; the compiler writes a table of its ops with the
unit of each. Then the file runs in the simulator: alone, on the inputs that onnxruntime's CPU provider gives it, and chained
with the others. Inputs are the tokens of a golden, else 16 tokens in a fixed order.

A file that the compiler ends on is compiled again without a rule of fusion that is known to be faulty; measured.json says so
("disabled_rules").

The compiler fuses and renames ops. A row of its table is reported where its name leads to a node of the file; what no row
leads to was fused into another op. Rows of the compiler's own that are not on the NPU are listed in measured.json as
"others".

The package rknn-toolkit2 is not part of moec; it is closed source, and its wheel contains no text of a licence.

Exits with 0 where each file compiles and each output has the cosine of --min-cosine, with 1 where not, with 2 where the
input is wrong or a package is missing. Ops on the CPU are no failure here: moec check --measured compares them with the
prediction.
"""

import argparse
import importlib.metadata
import os
import re
import sys
import tempfile
import time
from pathlib import Path

UNIT = "NPU"
ENGINE = "rknn"
# Chip families of targets/rknn.json; rk3566 stands for rk3568, too, rk3588 for rk3588s.
CHIPS = ("rv1126b", "rk3562", "rk3566", "rk3576", "rk3588")
# A row of the compiler's table: number, op, type, unit, shapes of inputs and output, cycles, traffic, full name.
ROW = re.compile(r"RKNN: \[[\d:.]+\] \d+ +(\w+) +\S+ +(CPU|GPU|NPU) +\S+ +\S+ +\S+ +\S+ +(\S+)")
PORTS = ("InputOperator", "OutputOperator")
# What the compiler appends to the name of the node that it replaces.
SUFFIX = re.compile(r"(#\d+|_\d*sp|_2[a-z]+\d*|_mm|_mp|_rs|_tp|_(Conv|Add|Mul)[A-Z]\w*)$")
UNLOWERED = re.compile(r"No lowering found for: (\S+), (.*)")
PRINTED = (1, 2)  # the descriptors that the package writes its log to
# Rules of fusion that end the compiler on some shards: one token of a latent cache (IndexError).
FAULTY_RULES = ("fuse_exmatmul_add_mul_exsoftmax13_exmatmul_to_sdpa",)
FALLBACK = "the compiler's table says so, without a reason"

try:
    import onnx
    from rknn.api import RKNN
except ImportError as missing:
    print(f"error[confirm.package]: {missing}\n  next: scripts/install_vendors.sh rknn, and use its Python, "
          "build/vendors/rknn/bin/python", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))

import confirmation  # noqa: E402
from confirmation import captured  # noqa: E402


class Simulated:
    """A compiled file with the interface of onnxruntime's sessions."""

    def __init__(self, rknn, inputs, outputs):
        self.rknn, self.inputs, self.outputs = rknn, inputs, outputs

    def run(self, names, feeds):
        ordered = [feeds[name] for name in self.inputs]
        results, log = captured(lambda: self.rknn.inference(inputs=ordered, data_format="nchw"), PRINTED)
        if results is None:
            raise ValueError(f"the simulator failed: {last_line(log)}")
        return [results[self.outputs.index(name)] for name in names]


class Compiler:
    """Rockchip's compiler for one chip."""

    unit, takes_all = UNIT, False

    def __init__(self, chip):
        self.chip = chip
        self.scratch = tempfile.TemporaryDirectory()  # verbose, it writes intermediate graphs to the working folder

    def compile(self, path):
        """A file as the compiler takes it: (session or None, what measured.json says of it)."""
        path, began = Path(path).resolve(), time.monotonic()
        rknn, log = self.build_in_scratch(path, [])
        disabled = [] if rknn else list(FAULTY_RULES)
        if rknn is None:
            rknn, log = self.build_in_scratch(path, disabled)
        seconds = round(time.monotonic() - began, 2)
        if rknn is None:
            return None, {"seconds": seconds, "ops": [], "error": last_line(log)}
        graph = onnx.load(path, load_external_data=False).graph
        ops, others = placed_ops(log, {node.name: node.op_type for node in graph.node})
        session = Simulated(rknn, [port.name for port in graph.input], [port.name for port in graph.output])
        return session, {"seconds": seconds, "disabled_rules": disabled, "ops": ops, "others": others}

    def build_in_scratch(self, path, disabled):
        """(what build() returns, or None; the log)."""
        home = os.getcwd()
        os.chdir(self.scratch.name)
        try:
            return captured(lambda: self.build(str(path), disabled), PRINTED)
        finally:
            os.chdir(home)

    def build(self, path, disabled):
        rknn = RKNN(verbose=True)
        steps = (lambda: rknn.config(target_platform=self.chip, disable_rules=disabled), lambda: rknn.load_onnx(path),
                 lambda: rknn.build(do_quantization=False), rknn.init_runtime)
        for step in steps:
            if step() != 0:
                raise ValueError(f"{path}: a step of the compiler failed")
        return rknn

    def write_contexts(self, emulated, folder):
        """Writes each compiled file as NAME.CHIP.rknn."""
        files = []
        for _, width in confirmation.widths_of(emulated.manifest):
            target = (folder / Path(width["file"]["path"]).with_suffix(f".{self.chip}.rknn")).resolve()
            target.parent.mkdir(parents=True, exist_ok=True)
            session = emulated.session(width)
            code, log = captured(lambda: session.rknn.export_rknn(str(target)), PRINTED)
            if code != 0:
                raise ValueError(f"{target}: {last_line(log)}")
            files.append(target)
        confirmation.list_contexts(self, emulated.manifest, folder.resolve(), files, shares_weights=False)

    def machine(self):
        version = importlib.metadata.version
        return {"engine": ENGINE, "version": version("rknn-toolkit2"), "chip": self.chip,
                "packages": f"rknn-toolkit2 {version('rknn-toolkit2')}, onnx {version('onnx')}"}


def last_line(log):
    """The last line of a log that says something, without colours and progress bars."""
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).strip() for line in re.split(r"[\r\n]", log)]
    return next((line for line in reversed(lines) if line and "%|" not in line), "the log is empty")


def source_of(name, nodes):
    """The node of the file that a row stands for, None where it is the compiler's own: its name without suffixes."""
    while name not in nodes:
        shorter = SUFFIX.sub("", name)
        if shorter == name:
            return None
        name = shorter
    return name


def placed_ops(log, nodes):
    """(the ops of measured.json, rows of the compiler's own elsewhere), from its table. A node with several rows is on the
    NPU where all of them are. `nodes` are the names of the file's nodes with their types."""
    reasons = dict(UNLOWERED.findall(log))
    ops, others = {}, []
    for kind, unit, full_name in ROW.findall(log):
        if kind in PORTS:
            continue
        name = source_of(full_name.split(":", 1)[-1], nodes)
        if name is None:
            others += [{"name": full_name, "op": kind, "preferred": unit}] if unit != UNIT else []
        elif name not in ops or unit != UNIT:
            ops[name] = {"name": name, "op": nodes[name], "preferred": unit, "rknn_op": kind}
            if unit != UNIT:
                ops[name]["message"] = reasons.get(name, FALLBACK)
    return list(ops.values()), others


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    confirmation.add_arguments(parser, ENGINE, CHIPS, "rk3588")
    return confirmation.run(parser, Compiler)


if __name__ == "__main__":
    sys.exit(main())
