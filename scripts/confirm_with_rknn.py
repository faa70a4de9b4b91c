#!/usr/bin/env python3
"""Checks an export with Rockchip's compiler and simulator: which ops run on the NPU, and their results.

    scripts/install_vendors.sh rknn                          # 1.5 GB
    moec export models/tinymoe --out out/tinymoe-rknn --target rknn --tokens 1,16
    build/vendors/rknn/bin/python scripts/confirm_with_rknn.py out/tinymoe-rknn --chip rk3588 --golden tests/golden/tinymoe
    moec check out/tinymoe-rknn --chip rk3588 --measured measured.json

Needs no device. Compiles each file for the chip without quantisation; the compiler writes a table with the unit of each
op. Then runs the file in the simulator: alone, on inputs from onnxruntime's CPU provider, and chained with the other
shards. Inputs are the tokens of --golden, or 16 fixed tokens without it.

A file on which the compiler crashes is compiled again without a fusion rule that is known to be faulty; measured.json
records this ("disabled_rules").

The compiler fuses and renames ops. Rows of its table are reported if their name can be traced to a node of the file; nodes
without rows were fused into other ops. Rows of ops that the compiler added and that are not on the NPU are listed in
measured.json as "others".

The package rknn-toolkit2 is not part of moec; it is closed source, and its wheel contains no licence text.

Exits with 0 if every file compiles and every output has at least the cosine --min-cosine; with 2 if the input is
invalid or a package is missing; otherwise with 1. Ops on the CPU are not failures: moec check --measured compares them
with the prediction.
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
# Chip families of targets/rknn.json; rk3566 includes rk3568, and rk3588 includes rk3588s.
CHIPS = ("rv1126b", "rk3562", "rk3566", "rk3576", "rk3588")
# Row of the compiler's table: number, op, type, unit, shapes of inputs and output, cycles, traffic, full name.
ROW = re.compile(r"RKNN: \[[\d:.]+\] \d+ +(\w+) +\S+ +(CPU|GPU|NPU) +\S+ +\S+ +\S+ +\S+ +(\S+)")
PORTS = ("InputOperator", "OutputOperator")
# Suffixes that the compiler appends to the name of a replaced node.
SUFFIX = re.compile(r"(#\d+|_\d*sp|_2[a-z]+\d*|_mm|_mp|_rs|_tp|_(Conv|Add|Mul)[A-Z]\w*)$")
UNLOWERED = re.compile(r"No lowering found for: (\S+), (.*)")
PRINTED = (1, 2)  # file descriptors of the package's log
# Fusion rules that crash the compiler on some shards: one token with a latent cache (IndexError).
FAULTY_RULES = ("fuse_exmatmul_add_mul_exsoftmax13_exmatmul_to_sdpa",)
FALLBACK = "the compiler's table states no reason"

try:
    import onnx
    from rknn.api import RKNN
except ImportError as missing:
    print(f"error[confirm.package]: {missing}\n  next: run scripts/install_vendors.sh rknn and use its Python, "
          "build/vendors/rknn/bin/python", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))

import confirmation  # noqa: E402
from confirmation import captured  # noqa: E402


class Simulated:
    """A compiled file with the interface of an onnxruntime session."""

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
        self.scratch = tempfile.TemporaryDirectory()  # the verbose compiler writes intermediate graphs to the working folder

    def compile(self, path):
        """Compiles a file; returns (session or None, its entry of measured.json)."""
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
        """Returns (result of build() or None, log)."""
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
    """Returns the last line of a log that is neither empty nor a progress bar, without colours."""
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line).strip() for line in re.split(r"[\r\n]", log)]
    return next((line for line in reversed(lines) if line and "%|" not in line), "the log is empty")


def source_of(name, nodes):
    """The node of the file for a row's name without suffixes; None if the compiler added the op."""
    while name not in nodes:
        shorter = SUFFIX.sub("", name)
        if shorter == name:
            return None
        name = shorter
    return name


def placed_ops(log, nodes):
    """Returns (ops of measured.json, added ops outside the NPU) from the compiler's table. A node with several rows is on
    the NPU if all of them are. `nodes` maps the names of the file's nodes to their types."""
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
