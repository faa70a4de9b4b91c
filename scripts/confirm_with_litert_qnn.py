#!/usr/bin/env python3
"""Compiles an export of .tflite files with Qualcomm's plugin of LiteRT and runs the result in Qualcomm's emulator.

    scripts/install_vendors.sh litert-qnn
    moec export models/tinymoe --out out/tinymoe-npu --target litert-qnn --tokens 1,16
    build/vendors/litert-qnn/bin/python scripts/confirm_with_litert_qnn.py out/tinymoe-npu --chip v75 \\
        --golden tests/golden/tinymoe
    moec check out/tinymoe-npu --chip v75 --measured measured.json

Also accepts exports for the target litert. Needs no device: the plugin, in ai-edge-litert, compiles each file ahead of time
with the libraries of onnxruntime-qnn and replaces each partition that it accepts with one op, DISPATCH_OP; the other ops
remain in the file. onnxruntime-qnn runs a partition's context binary in its emulator: alone, on inputs from LiteRT on the
CPU, and chained with the other shards. Inputs are the tokens of --golden, or up to 16 fixed tokens without it. A graph with
several partitions, or with ops outside, is compiled but not run.

--context-binaries keeps the compiled .tflite files, with weights shared among widths. The measured files do not share them,
because the emulator loads no shared weights.

The packages are not part of moec. onnxruntime-qnn contains libraries under Qualcomm's AI Stack License, which you accept by
installing it. Whether that licence permits LiteRT's plugin to use the libraries is for you to decide.

Exits with 0 if every op runs on the NPU and every output has at least the cosine --min-cosine; with 2 if the input is
invalid or a package or a C compiler is missing; otherwise with 1.
"""

import argparse
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    import onnx
    import onnxruntime  # noqa: F401
    import onnxruntime_qnn
    from ai_edge_litert import schema_py_generated as schema
    from flatbuffers import flexbuffers
except ImportError as missing:
    print(f"error[confirm.package]: {missing}\n  next: run scripts/install_vendors.sh litert-qnn and use its Python, "
          "build/vendors/litert-qnn/bin/python; Qualcomm's licence applies to it", file=sys.stderr)
    sys.exit(2)

import confirm_with_litert as litert  # noqa: E402
import confirm_with_qnn as qnn  # noqa: E402
import confirmation  # noqa: E402

ENGINE = "litert-qnn"
UNIT = qnn.UNIT
OTHER = "CPU"
CHIPS = {"v73": "SM8550", "v75": "SM8650", "v79": "SM8750"}  # Hexagon architecture → the plugin's --soc_model
DISPATCH = "DISPATCH_OP"
FALLBACK = "the plugin left the op to LiteRT"
STUB = "libQnnLpai.so"  # the plugin links to it, but uses it only for another processor
NOT_IN_QNN = re.compile(r"\W", re.ASCII)  # the plugin replaces these characters of tensor names
LITERT = Path(importlib.util.find_spec("ai_edge_litert").origin).parent
QNN = Path(onnxruntime_qnn.get_library_path()).parent
NAMES = {code: name for name, code in vars(schema.BuiltinOperator).items() if not name.startswith("_")}


def make_stub(folder):
    """Compiles an empty library with the name STUB, because no package has that library."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        raise ValueError(f"{compiler[0]} is missing, which makes an empty {STUB}: install a C compiler, or set CC")
    command = [*compiler, "-shared", "-fPIC", "-xc", "/dev/null", f"-Wl,-soname,{STUB}", "-o", str(folder / STUB)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError(f"the C compiler cannot make {STUB}: {done.stderr.strip()}")


def read_graph(content, function):
    """Returns (model, subgraph, signature) of a function of a file."""
    model = schema.Model.GetRootAs(content)
    signatures = [model.SignatureDefs(i) for i in range(model.SignatureDefsLength())]
    signature = next(one for one in signatures if one.SignatureKey() == function.encode())
    return model, model.Subgraphs(signature.SubgraphIndex()), signature


def ops_of(model, graph):
    """Returns (name of the first output, kind, op) of each op of a graph."""
    ops = [graph.Operators(i) for i in range(graph.OperatorsLength())]
    codes = [model.OperatorCodes(op.OpcodeIndex()) for op in ops]
    kinds = [(code.CustomCode() or NAMES[code.BuiltinCode()].encode()).decode() for code in codes]
    return [(graph.Tensors(op.Outputs(0)).Name().decode(), kind, op) for kind, op in zip(kinds, ops)]


def placed_ops(source, compiled, function):
    """Returns (ops of measured.json, custom options of each DISPATCH_OP) of a function."""
    left, partitions = set(), []
    for name, kind, op in ops_of(*read_graph(compiled, function)[:2]):
        if kind == DISPATCH:
            partitions.append(flexbuffers.Loads(op.CustomOptionsAsNumpy().tobytes()))
        else:
            left.add(name)
    listed = [{"name": name, "op": kind, "preferred": OTHER if name in left else UNIT,
               "message": FALLBACK if name in left else ""}
              for name, kind, _ in ops_of(*read_graph(source, function)[:2])
              if kind != "BROADCAST_TO" and not name.endswith(litert.ADDED)]
    return listed, partitions


def tensors_of(graph, signature, side):
    """Maps the ports of a signature's side, "Inputs" or "Outputs", to (name in the context, ONNX type, shape)."""
    types = {schema.TensorType.FLOAT32: onnx.TensorProto.FLOAT, schema.TensorType.FLOAT16: onnx.TensorProto.FLOAT16,
             schema.TensorType.INT32: onnx.TensorProto.INT32, schema.TensorType.BOOL: onnx.TensorProto.BOOL}
    ports = {}
    for i in range(getattr(signature, f"{side}Length")()):
        port = getattr(signature, side)(i)
        tensor = graph.Tensors(port.TensorIndex())
        name = NOT_IN_QNN.sub("_", tensor.Name().decode())
        ports[port.Name().decode()] = (name, types[tensor.Type()], tensor.ShapeAsNumpy().tolist())
    return ports


class Partition:
    """A compiled graph in the emulator, with the interface of an onnxruntime session."""

    def __init__(self, session, inputs, outputs):
        self.session, self.inputs, self.outputs = session, inputs, outputs

    def run(self, names, feeds):
        return self.session.run([self.outputs[name][0] for name in names],
                                {self.inputs[name][0]: values for name, values in feeds.items()})


class Compiler(qnn.Compiler):
    """Compiles files with the plugin, each once for all of its graphs, and opens their partitions in the emulator."""

    def __init__(self, chip):
        super().__init__(chip)
        self.folder = tempfile.TemporaryDirectory()
        make_stub(Path(self.folder.name))
        self.compiled = {}  # path → (compiled file or None, seconds, error)

    def apply(self, source, target, shares_weights=False):
        """Compiles a file ahead of time; returns None or the error."""
        libraries = os.pathsep.join(map(str, (self.folder.name, QNN, LITERT)))
        command = [LITERT / "tools/apply_plugin_main", "--cmd=apply", f"--model={source}", f"--o={target}",
                   "--soc_manufacturer=Qualcomm", f"--soc_model={CHIPS[self.chip]}",
                   f"--libs={LITERT / 'vendors/qualcomm/compiler'}", f"--qualcomm_qnn_lib_dir={QNN}",
                   "--qualcomm_log_level=error", f"--qualcomm_enable_weight_sharing={str(shares_weights).lower()}"]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              env={**os.environ, "LD_LIBRARY_PATH": libraries})
        if done.returncode == 0:
            return None
        errors = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR:" in line]
        return errors[0] if errors else f"apply_plugin_main exited with {done.returncode}"

    def compile(self, path, function):
        """Compiles a graph; returns (session or None, its entry of measured.json)."""
        if path not in self.compiled:
            began, target = time.monotonic(), Path(self.folder.name) / f"{len(self.compiled)}.tflite"
            error = self.apply(path, target)
            self.compiled[path] = target, round(time.monotonic() - began, 2), error
        target, seconds, error = self.compiled[path]
        if error:
            return None, {"seconds": seconds, "ops": [], "error": error}
        content = target.read_bytes()
        ops, partitions = placed_ops(path.read_bytes(), content, function)
        entry = {"seconds": seconds, "partitions": len(partitions),
                 "partition": ", ".join(part["name"] for part in partitions), "ops": ops}
        left = sum(op["preferred"] != UNIT for op in ops)
        if left or len(partitions) != 1:
            return None, entry | {"error": f"{left} of {len(ops)} ops are outside the plugin's {len(partitions)} partitions"}
        session, log = confirmation.captured(lambda: self.open(content, function, partitions[0]))
        if session is None:
            entry["error"] = log.strip().splitlines()[-1]
        return session, entry

    def open(self, content, function, partition):
        """Opens the only partition of a graph in the emulator, as an EPContext node."""
        _, graph, signature = read_graph(content, function)
        inputs, outputs = (tensors_of(graph, signature, side) for side in ("Inputs", "Outputs"))
        begin, name = partition["bytecode_offset"], partition["name"]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "context.bin").write_bytes(content[begin : begin + partition["bytecode_size"]])
            names = [[tensor for tensor, _, _ in ports.values()] for ports in (inputs, outputs)]
            node = onnx.helper.make_node("EPContext", *names, name=name, domain="com.microsoft", partition_name=name,
                                         main_context=1, embed_mode=0, ep_cache_context="context.bin", source="QNN")
            values = [[onnx.helper.make_tensor_value_info(*one) for one in ports.values()] for ports in (inputs, outputs)]
            model = onnx.helper.make_model(onnx.helper.make_graph([node], name, *values), ir_version=10, opset_imports=[
                onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)])
            path = Path(folder) / "context.onnx"
            onnx.save(model, path)
            return Partition(self.session(path), inputs, outputs)

    def write_contexts(self, emulated, folder):
        """Compiles each file with weights shared among its widths."""
        paths = {width["file"]["path"] for _, width in confirmation.widths_of(emulated.manifest)}
        targets = {path: folder / Path(path).with_suffix(f".{self.chip}.tflite") for path in sorted(paths)}
        for path, target in targets.items():
            target.parent.mkdir(parents=True, exist_ok=True)
            error = self.apply(emulated.folder / path, target, shares_weights=True)
            if error:
                raise ValueError(f"{path}: {error}")
        confirmation.list_contexts(self, emulated.manifest, folder, targets.values(), shares_weights=True)

    def machine(self):
        version, measured = importlib.metadata.version("ai-edge-litert"), super().machine()
        return measured | {"engine": ENGINE, "packages": f"ai-edge-litert {version}, {measured['packages']}"}


class Compiled(litert.Loaded):
    """A ShardRunner whose shards run in the emulator."""

    def compared(self):
        return OnCpu(self)


class OnCpu(confirmation.Compared, litert.LitertRunner):
    """Runs each shard in LiteRT on the CPU, too."""

    reference = "results of LiteRT on the CPU"

    def feed(self, tokens):
        try:
            return super().feed(tokens)
        except RuntimeError as error:  # the interpreter's only exception, such as for grouped convolutions of f16
            raise ValueError(f"LiteRT does not run the files on the CPU: {error}: export with --dtype f32 or pass --no-run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    confirmation.add_arguments(parser, ENGINE, CHIPS, "v75")
    return confirmation.run(parser, Compiler, Compiled)


if __name__ == "__main__":
    sys.exit(main())
