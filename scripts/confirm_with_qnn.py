#!/usr/bin/env python3
"""Lets Qualcomm's compiler and emulator judge an export: which ops the NPU (HTP) takes, and what it computes.

    python3 -m venv qnn && qnn/bin/pip install --no-deps numpy onnxruntime==1.32.0 onnxruntime-qnn==2.7.0
    moec export models/tinymoe --out out/tinymoe-qnn --target qnn --tokens 1,16
    qnn/bin/python scripts/confirm_with_qnn.py out/tinymoe-qnn --chip v75 --golden tests/golden/tinymoe
    moec check out/tinymoe-qnn --chip v75 --measured measured.json

No device is needed. Each file is compiled with the fallback to the CPU disabled and onnxruntime's own fusions off, then
runs in the emulator: alone, on the inputs that onnxruntime's CPU provider gives it, and chained with the others. Inputs
are the tokens of a golden, else 16 tokens in a fixed order. What the compiler refuses is compiled again with the
fallback, to learn which ops those are and why.

The packages are not part of moec. onnxruntime-qnn contains libraries under Qualcomm's AI Stack License, which who
installs it accepts; this script uses their documented options and outputs only.

Exits with 0 where each op is on the NPU and each output has the cosine of --min-cosine, with 1 where not, with 2 where
the input is wrong or a package is missing.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

UNIT = "HTP"
ENGINE = "qnn"
MIN_COSINE = 0.999  # of an output in the emulator against the CPU; an expert that flips gives less
# Hexagon architectures → Qualcomm's number of a system with it. Without the number the compiler assumes less on-chip
# memory than the chip has.
CHIPS = {"v68": 30, "v69": 36, "v73": 43, "v75": 57, "v79": 69, "v81": 87}
SHARES_WEIGHTS = ("v73", "v75", "v79", "v81")
COPY = re.compile(r"_token_\d+$")  # onnxruntime's copy of a convolution in another layout
REFUSAL = re.compile(r"Node name: (\S+) Node index.*?\n\s*REASON : (.*)")
PACKAGES = "numpy onnxruntime==1.32.0 onnxruntime-qnn==2.7.0"

try:
    import numpy as np
    import onnxruntime
    import onnxruntime_qnn
except ImportError as missing:
    print(f"error[confirm.package]: {missing}\n  next: install what this engine needs into an environment of its own, "
          f"pip install --no-deps {PACKAGES}; Qualcomm's licence applies to it", file=sys.stderr)
    sys.exit(2)

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run_with_onnxruntime import Runner  # noqa: E402


class Compiler:
    """Sessions of the QNN execution provider for one chip."""

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
        """Compiles a file. Raises where the compiler refuses it, or one of its ops without `fallback`."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 0 if fallback else 4
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        entries = {"session.disable_cpu_ep_fallback": "0" if fallback else "1",
                   "session.record_ep_graph_assignment_info": "1"} | (entries or {})
        for key, value in entries.items():
            options.add_session_config_entry(key, value)
        options.add_provider_for_devices(self.device, self.provider | (provider or {}))
        return onnxruntime.InferenceSession(path, options)


def captured(run):
    """What `run` returns, None where it raises, and what was printed meanwhile: native logs go to the descriptor."""
    with tempfile.TemporaryFile() as log:
        sys.stderr.flush()
        kept = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            result = run()
        except Exception as error:  # onnxruntime's errors have no common class
            result = None
            os.write(2, str(error).encode())
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        log.seek(0)
        return result, log.read().decode(errors="replace")


def ops_of(session, reasons=None, qnn_types=None):
    """The ops of measured.json: each node of the file, where it runs, and why if that is not the NPU."""
    ops = []
    for part in session.get_provider_graph_assignment_info():
        unit = UNIT if part.ep_name == onnxruntime_qnn.get_ep_name() else "CPU"
        for node in part.get_nodes():
            if "/" not in node.name:  # a Transpose of onnxruntime's own: moec's names are paths
                continue
            op = {"name": COPY.sub("", node.name), "op": node.op_type, "preferred": unit}
            if node.name in (qnn_types or {}):
                op["qnn_op"] = qnn_types[node.name]
            if unit != UNIT:
                op["message"] = (reasons or {}).get(node.name, "the compiler gives no reason")
            ops.append(op)
    return ops


def read_trace(folder):
    """ONNX node → op of QNN, from the trace that the provider writes."""
    traces = list(Path(folder).rglob("qnn_op_trace.json"))
    graphs = json.loads(traces[0].read_text())["subgraph_traces"] if traces else []
    return {source["name"]: mapping["dst_qnn_op_type"]
            for graph in graphs for mapping in graph["op_mappings"] for source in mapping["sources"]}


def compile_graph(compiler, path):
    """A file as the compiler takes it: (session or None, what measured.json says of it)."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trace = {"enable_framework_op_trace": "1", "framework_op_trace_dir": folder}
        session, log = captured(lambda: compiler.session(path, provider=trace))
        seconds = round(time.monotonic() - began, 2)
        if session is not None:
            return session, {"seconds": seconds, "ops": ops_of(session, qnn_types=read_trace(folder))}
    session, reasons = captured(lambda: compiler.session(path, fallback=True))
    if session is None:
        return None, {"seconds": seconds, "ops": [], "error": log.strip().splitlines()[-1]}
    return session, {"seconds": seconds, "ops": ops_of(session, dict(REFUSAL.findall(reasons)))}


def cosine(got, wanted):
    """1 where both are zero, -1 where a value is not finite on one side alone."""
    got, wanted = (np.asarray(values, np.float64).ravel() for values in (got, wanted))
    finite = np.isfinite(wanted)
    if not np.array_equal(np.isfinite(got), finite):
        return -1.0
    norms = np.linalg.norm(got[finite]) * np.linalg.norm(wanted[finite])
    return float(got[finite] @ wanted[finite] / norms) if norms > 0 else float(np.array_equal(got, wanted))


class Pair:
    """Runs a file on the CPU and in the emulator, notes how near they are, and gives the CPU's results."""

    def __init__(self, cpu, npu, note):
        self.cpu, self.npu, self.note = cpu, npu, note

    def run(self, names, feeds):
        wanted = self.cpu.run(names, feeds)
        self.note(names, self.npu.run(names, feeds), wanted)
        return wanted


class Emulated(Runner):
    """A Runner whose shards run in the emulator."""

    def __init__(self, folder, compiler, threads=1):
        super().__init__(folder, threads=threads)
        self.compiler = compiler
        self.graphs = {}  # path → what measured.json says of it

    def session(self, width):
        path = width["file"]["path"]
        if path not in self.sessions:
            self.sessions[path], self.graphs[path] = compile_graph(self.compiler, self.folder / path)
            if self.sessions[path] is None:
                raise ValueError(f"{path}: {self.graphs[path]['error']}")
        return self.sessions[path]


class Compared(Runner):
    """A Runner on the CPU that runs each shard in the emulator, too, on the same inputs."""

    def __init__(self, emulated):
        super().__init__(emulated.folder, skip_idle_groups=False, threads=1)
        self.emulated = emulated
        self.worst = {}  # path → the least cosine of an output

    def session(self, width):
        path = width["file"]["path"]

        def note(names, got, wanted):
            least = min(cosine(*pair) for pair in zip(got, wanted))
            self.worst[path] = min(least, self.worst.get(path, 1.0))

        return Pair(super().session(width), self.emulated.session(width), note)


def read_tensors(path):
    """The arrays of a safetensors file."""
    dtypes = {"F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32}
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)
    return {name: np.frombuffer(data[begin:][slice(*entry["data_offsets"])],
                                dtypes[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}


def read_steps(golden, manifest):
    """(token ids, golden logits or None) of each step that is fed."""
    if golden is None:
        count = min(16, manifest["build"]["context"], manifest["build"]["tokens"][-1])
        return [(list(range(count)), None)]
    tensors = read_tensors(golden / "golden.safetensors")
    names = [step["name"] for step in json.loads((golden / "golden.json").read_text())["steps"]]
    return [(tensors[f"{name}.tokens"].tolist(), tensors[f"{name}.logits"]) for name in names]


def run_chains(emulated, steps):
    """Feeds the steps to both; returns what measured.json says of the whole."""
    compared = Compared(emulated)
    wanted = [compared.feed(tokens) for tokens, _ in steps]
    emulated.reset()
    got = np.concatenate([emulated.feed(tokens) for tokens, _ in steps])
    references = [cpu if golden is None else golden for cpu, (_, golden) in zip(wanted, steps)]
    reference = np.concatenate(references)
    return compared.worst, {
        "reference": "onnxruntime's CPU provider" if steps[0][1] is None else "golden",
        "rows": len(got),
        "same_top1": int((got.argmax(1) == reference.argmax(1)).sum()),
        "cosine": cosine(got, reference),
    }


def widths_of(manifest):
    return [(shard, width) for shard in manifest["shards"] for width in shard["widths"]]


def measure(emulated, golden, run):
    """measured.json but for its head. Runs the shards where all of them compile."""
    graphs = []
    for shard, width in widths_of(emulated.manifest):
        path = width["file"]["path"]
        try:
            emulated.session(width)
        except ValueError as error:
            print(f"{error}", file=sys.stderr)
            run = False
        graphs.append({"shard": shard["name"], "tokens": width["tokens"], "digest": width["file"]["digest"],
                       "path": path, **emulated.graphs[path]})
    if not run:
        return {"graphs": graphs}
    worst, chain = run_chains(emulated, read_steps(golden, emulated.manifest))
    for graph in graphs:
        if graph["path"] in worst:
            graph["cosine"] = worst[graph["path"]]
    return {"chain": chain, "graphs": graphs}


def write_contexts(compiler, out, manifest, folder):
    """Compiles each shard into a context binary, all its widths into one where the chip shares weights, and records the
    digests in contexts.json: two compilations of one file differ in bytes, so they hold for these files alone."""
    shares = compiler.chip in SHARES_WEIGHTS
    for shard in manifest["shards"]:
        for index, width in enumerate(shard["widths"]):
            target = folder / Path(width["file"]["path"]).with_suffix(f".{compiler.chip}.onnx")
            target.parent.mkdir(parents=True, exist_ok=True)
            entries = {"ep.context_enable": "1", "ep.context_file_path": str(target)}
            if shares and len(shard["widths"]) > 1:
                last = index + 1 == len(shard["widths"])
                entries |= {"ep.share_ep_contexts": "1", "ep.stop_share_ep_contexts": str(int(last))}
            session, log = captured(lambda: compiler.session(out / width["file"]["path"], entries=entries))
            if session is None:
                raise ValueError(f"{width['file']['path']}: {log.strip().splitlines()[-1]}")
            del session
    files = [{"path": str(path.relative_to(folder)), "bytes": path.stat().st_size,
              "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
             for path in sorted(folder.rglob("*")) if path.suffix in (".onnx", ".bin")]
    sources = [{"path": width["file"]["path"], "digest": width["file"]["digest"]} for _, width in widths_of(manifest)]
    report = {"format": "moec-context-binaries", "version": 1, "machine": machine(compiler), "shares_weights": shares,
              "sources": sources, "files": files}
    (folder / "contexts.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return files


def machine(compiler):
    package = onnxruntime_qnn.build_and_package_info
    return {"engine": ENGINE, "version": package.qnn_version, "chip": compiler.chip,
            "packages": f"onnxruntime-qnn {package.__version__}, onnxruntime {onnxruntime.__version__}"}


def report_on(measured, min_cosine):
    """Prints what differs; returns whether all is well."""
    elsewhere = [(graph, op) for graph in measured["graphs"] for op in graph["ops"] if op["preferred"] != UNIT]
    for graph, op in elsewhere:
        print(f"{graph['shard']} T={graph['tokens']} {op['name']} ({op['op']}): {op['preferred']}: {op['message']}")
    failed = [graph for graph in measured["graphs"] if "error" in graph]
    far = [graph for graph in measured["graphs"] if graph.get("cosine", 1.0) < min_cosine]
    for graph in far:
        print(f"{graph['shard']} T={graph['tokens']}: cosine {graph['cosine']:.6f} against the CPU provider")
    ops = sum(len(graph["ops"]) for graph in measured["graphs"])
    print(f"{ops - len(elsewhere)} of {ops} ops on {UNIT}; {len(failed)} of {len(measured['graphs'])} files refused")
    if "chain" in measured:
        chain, least = measured["chain"], min(graph.get("cosine", 1.0) for graph in measured["graphs"])
        print(f"emulator: least cosine of a shard {least:.6f}; chained {chain['same_top1']} of {chain['rows']} top-1 "
              f"as the {chain['reference']}, cosine {chain['cosine']:.6f}")
    return not (elsewhere or failed or far)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="a folder that `moec export --target qnn` wrote")
    parser.add_argument("--chip", default="v75", choices=CHIPS, help="architecture of the NPU (default: v75)")
    parser.add_argument("--golden", type=Path, help="a golden folder: its tokens are fed, its logits compared")
    parser.add_argument("--measured", type=Path, default=Path("measured.json"),
                        help="the file to write (default: measured.json)")
    parser.add_argument("--context-binaries", type=Path, metavar="DIR",
                        help="also write compiled contexts and their digests (contexts.json) to this folder")
    parser.add_argument("--no-run", dest="run", action="store_false", help="compile only")
    parser.add_argument("--min-cosine", type=float, default=MIN_COSINE,
                        help=f"least cosine of an output in the emulator (default: {MIN_COSINE})")
    return parser, parser.parse_args()


def main():
    parser, args = parse_arguments()
    try:
        compiler = Compiler(args.chip)
        emulated = Emulated(args.out, compiler)
        head = {"format": "moec-measured-placement", "version": 1, "machine": machine(compiler)}
        measured = head | measure(emulated, args.golden, args.run)
        args.measured.write_text(json.dumps(measured, indent=1) + "\n", encoding="utf-8")
        good = report_on(measured, args.min_cosine)
        if args.context_binaries and not any("error" in graph for graph in measured["graphs"]):
            files = write_contexts(compiler, args.out, emulated.manifest, args.context_binaries)
            print(f"wrote {len(files)} files, {sum(file['bytes'] for file in files)} bytes, to {args.context_binaries}")
    except (OSError, ValueError, KeyError) as error:
        parser.exit(2, f"error[confirm.input]: {error}\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
