#!/usr/bin/env python3
"""Checks an export with Qualcomm's compiler and emulator: which ops run on the NPU (HTP), and their results.

    python3 -m venv qnn && qnn/bin/pip install --no-deps numpy onnxruntime==1.32.0 onnxruntime-qnn==2.7.0
    moec export models/tinymoe --out out/tinymoe-qnn --target qnn --tokens 1,16
    qnn/bin/python scripts/confirm_with_qnn.py out/tinymoe-qnn --chip v75 --golden tests/golden/tinymoe
    moec check out/tinymoe-qnn --chip v75 --measured measured.json

Needs no device. Compiles each file without CPU fallback and without onnxruntime's fusions, then runs it in the
emulator: alone, on inputs from onnxruntime's CPU provider, and chained with the other shards. Inputs are the tokens of
--golden, or 16 fixed tokens without it. Files that the compiler rejects are compiled again with fallback, to find the
rejected ops and the reasons.

The packages are not part of moec. onnxruntime-qnn contains libraries under Qualcomm's AI Stack License, which you accept by
installing it. This script uses only their documented options and outputs.

Exits with 0 if every op runs on the NPU and every output has at least the cosine --min-cosine; with 2 if the input is
invalid or a package is missing; otherwise with 1.
"""

import argparse
import json
import re
import sys
import tempfile
import time
from pathlib import Path

UNIT = "HTP"
ENGINE = "qnn"
# Hexagon architecture → SoC number of a system with that architecture. Without the number, the compiler assumes less
# on-chip memory than the chip has.
CHIPS = {"v68": 30, "v69": 36, "v73": 43, "v75": 57, "v79": 69, "v81": 87}
SHARES_WEIGHTS = ("v73", "v75", "v79", "v81")
COPY = re.compile(r"_token_\d+$")  # suffix of convolutions that onnxruntime converts to another layout
REFUSAL = re.compile(r"Node name: (\S+) Node index.*?\n\s*REASON : (.*)")
PACKAGES = "numpy onnxruntime==1.32.0 onnxruntime-qnn==2.7.0"

try:
    import onnxruntime
    import onnxruntime_qnn
except ImportError as missing:
    print(f"error[confirm.package]: {missing}\n  next: install the packages of this engine into a separate environment, "
          f"pip install --no-deps {PACKAGES}; Qualcomm's licence applies to it", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))

import confirmation  # noqa: E402
from confirmation import captured  # noqa: E402


class Compiler:
    """Sessions of the QNN execution provider for one chip."""

    unit, takes_all = UNIT, True

    def __init__(self, chip):
        self.chip = chip
        name = onnxruntime_qnn.get_ep_name()
        if not self.devices(name):
            onnxruntime.register_execution_provider_library(name, onnxruntime_qnn.get_library_path())
        self.device = self.devices(name)[:1]
        self.provider = {
            "backend_path": onnxruntime_qnn.get_qnn_htp_path(),
            "htp_arch": chip.removeprefix("v"),
            "soc_model": str(CHIPS[chip]),
            "offload_graph_io_quantization": "0",
        }

    @staticmethod
    def devices(name):
        return [device for device in onnxruntime.get_ep_devices() if device.ep_name == name]

    def session(self, path, fallback=False, entries=None, provider=None):
        """Compiles a file. Raises if the compiler rejects it or, without `fallback`, one of its ops."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 0 if fallback else 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        entries = {"session.disable_cpu_ep_fallback": "0" if fallback else "1",
                   "session.record_ep_graph_assignment_info": "1"} | (entries or {})
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        options.add_provider_for_devices(self.device, self.provider | (provider or {}))
        return onnxruntime.InferenceSession(path, options)

    def compile(self, path):
        """Compiles a file; returns (session or None, its entry of measured.json)."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            trace = {"enable_framework_op_trace": "1", "framework_op_trace_dir": folder}
            session, log = captured(lambda: self.session(path, provider=trace))
            seconds = round(time.monotonic() - began, 2)
            if session is not None:
                return session, {"seconds": seconds, "ops": ops_of(session, qnn_types=read_trace(folder))}
        session, reasons = captured(lambda: self.session(path, fallback=True))
        if session is None:
            return None, {"seconds": seconds, "ops": [], "error": log.strip().splitlines()[-1]}
        return session, {"seconds": seconds, "ops": ops_of(session, dict(REFUSAL.findall(reasons)))}

    def write_contexts(self, emulated, folder):
        """Compiles each shard into a context binary, with all widths if the chip shares weights. Compilation is not
        reproducible, so the digests are valid only for the files of this run."""
        shares = self.chip in SHARES_WEIGHTS
        for shard in emulated.manifest["shards"]:
            for index, width in enumerate(shard["widths"]):
                target = folder / Path(width["file"]["path"]).with_suffix(f".{self.chip}.onnx")
                target.parent.mkdir(parents=True, exist_ok=True)
                entries = {"ep.context_enable": "1", "ep.context_file_path": str(target)}
                if shares and len(shard["widths"]) > 1:
                    last = index + 1 == len(shard["widths"])
                    entries |= {"ep.share_ep_contexts": "1", "ep.stop_share_ep_contexts": str(int(last))}
                self.write_context(emulated.folder / width["file"]["path"], entries)
        files = [path for path in folder.rglob("*") if path.suffix in (".onnx", ".bin")]
        confirmation.list_contexts(self, emulated.manifest, folder, files, shares_weights=shares)

    def write_context(self, path, entries):
        session, log = captured(lambda: self.session(path, entries=entries))
        if session is None:
            raise ValueError(f"{path}: {log.strip().splitlines()[-1]}")

    def machine(self):
        package = onnxruntime_qnn.build_and_package_info
        return {"engine": ENGINE, "version": package.qnn_version, "chip": self.chip,
                "packages": f"onnxruntime-qnn {package.__version__}, onnxruntime {onnxruntime.__version__}"}


def ops_of(session, reasons=None, qnn_types=None):
    """The ops of measured.json: each node of the file, its unit, and the reason if that is not the NPU."""
    ops = []
    for part in session.get_provider_graph_assignment_info():
        unit = UNIT if part.ep_name == onnxruntime_qnn.get_ep_name() else "CPU"
        for node in part.get_nodes():
            if "/" not in node.name:  # a Transpose that onnxruntime added: moec's names are paths
                continue
            op = {"name": COPY.sub("", node.name), "op": node.op_type, "preferred": unit}
            if node.name in (qnn_types or {}):
                op["qnn_op"] = qnn_types[node.name]
            if unit != UNIT:
                op["message"] = (reasons or {}).get(node.name, "the compiler states no reason")
            ops.append(op)
    return ops


def read_trace(folder):
    """Maps ONNX nodes to QNN ops, from the provider's trace."""
    traces = list(Path(folder).rglob("qnn_op_trace.json"))
    graphs = json.loads(traces[0].read_text())["subgraph_traces"] if traces else []
    return {source["name"]: mapping["dst_qnn_op_type"]
            for graph in graphs for mapping in graph["op_mappings"] for source in mapping["sources"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    confirmation.add_arguments(parser, ENGINE, CHIPS, "v75")
    return confirmation.run(parser, Compiler)


if __name__ == "__main__":
    sys.exit(main())
