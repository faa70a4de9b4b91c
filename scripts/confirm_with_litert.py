#!/usr/bin/env python3
"""Checks an export in LiteRT on the CPU: which ops XNNPACK takes, in how many partitions, and their results.

    scripts/install_vendors.sh litert
    moec export models/tinymoe --out out/tinymoe-litert --target litert --tokens 1,16
    build/vendors/litert/bin/python scripts/confirm_with_litert.py out/tinymoe-litert --golden tests/golden/tinymoe
    moec check out/tinymoe-litert --measured measured.json

Loads each graph in the interpreter with its default delegate, XNNPACK, and lists the ops that the delegate replaced. Then
runs the graph as a CompiledModel with XNNPACK, and in the interpreter with LiteRT's own kernels on the same inputs: alone,
and chained with the other shards.
Inputs are the tokens of --golden, or up to 16 fixed tokens without it.

The interpreter lists only the ops of a file's first graph. For the others, the script exchanges the graphs in a copy of
the file in memory, which therefore must hold the largest file.

Exits with 0 if every graph loads and every output has at least the cosine --min-cosine; with 2 if the input is invalid
or a package is missing; otherwise with 1. Ops on LiteRT's own kernels are not failures: moec check --measured compares
them with the prediction.
"""

import argparse
import importlib.metadata
import platform
import struct
import sys
import time
from pathlib import Path

UNIT = "XNNPACK"
OTHER = "LiteRT's own kernels"
ENGINE = "litert"
CHIPS = ("",)  # the rules of targets/litert.json hold for every CPU
SUBGRAPHS = 2  # field of the table Model
FALLBACK = "XNNPACK left the op to the interpreter"
# Suffixes of tensors that moec adds around an op; they have no op in the shard.
ADDED = ("/channels_last", "/i32")

sys.path.insert(0, str(Path(__file__).resolve().parent))

try:
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.environment import Environment
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    import confirmation
    from run_with_litert import LitertRunner, Signature, compile_model
except ImportError as missing:
    print(f"error[confirm.package]: {missing}\n  next: run scripts/install_vendors.sh litert and use its Python, "
          "build/vendors/litert/bin/python", file=sys.stderr)
    sys.exit(2)


def subgraph_index(model, function):
    """The subgraph of a signature."""
    for i in range(model.SignatureDefsLength()):
        signature = model.SignatureDefs(i)
        if signature.SignatureKey() == function.encode():
            return signature.SubgraphIndex()
    raise ValueError(f"the file has no signature {function}")


def with_first(content, function):
    """The file's bytes with the signature's subgraph as the first one. Elements of the vector are offsets relative to
    their own positions."""
    model = schema.Model.GetRootAs(content)
    index = subgraph_index(model, function)
    if index == 0:
        return content
    table = model._tab
    start = table.Vector(table.Offset(4 + 2 * SUBGRAPHS))
    places = (start, start + 4 * index)
    targets = [place + struct.unpack_from("<I", content, place)[0] for place in places]
    exchanged = bytearray(content)
    for place, target in zip(places, reversed(targets)):
        struct.pack_into("<I", exchanged, place, target - place)
    return bytes(exchanged)


def delegated(ops):
    """Indices of the ops that a delegate computes: those between the inputs and outputs of its nodes."""
    producer = {int(tensor): op for op in ops if op["op_name"] != "DELEGATE" for tensor in op["outputs"]}
    found = set()
    for node in (op for op in ops if op["op_name"] == "DELEGATE"):
        given, todo = set(map(int, node["inputs"])), list(map(int, node["outputs"]))
        while todo:
            tensor = todo.pop()
            op = None if tensor in given else producer.get(tensor)
            if op is not None and op["index"] not in found:
                found.add(op["index"])
                todo.extend(int(one) for one in op["inputs"])
    return found


def placed_ops(interpreter):
    """Returns (ops of measured.json, number of the delegate's partitions) of an interpreter's first graph."""
    ops = interpreter._get_ops_details()
    names = {tensor["index"]: tensor["name"] for tensor in interpreter.get_tensor_details()}
    inside, listed = delegated(ops), []
    for op in ops:
        name = names[int(op["outputs"][0])]
        if op["op_name"] in ("DELEGATE", "BROADCAST_TO") or name.endswith(ADDED):
            continue
        unit = UNIT if op["index"] in inside else OTHER
        listed.append({"name": name, "op": op["op_name"], "preferred": unit,
                       "message": "" if unit == UNIT else FALLBACK})
    return listed, sum(op["op_name"] == "DELEGATE" for op in ops)


class Interpreted:
    """A graph of a file in the interpreter, with the interface of an onnxruntime session."""

    def __init__(self, interpreter, name):
        self.call = interpreter.get_signature_runner(name)

    def run(self, names, feeds):
        results = self.call(**feeds)
        return [results[name] for name in names]


class Loader:
    """Loads graphs in LiteRT."""

    unit, takes_all = UNIT, False

    def __init__(self):
        self.environment = Environment.create()

    def compile(self, path, function):
        """Loads a graph; returns (session or None, its entry of measured.json)."""
        began = time.monotonic()
        try:
            content = with_first(path.read_bytes(), function)
            interpreter = Interpreter(model_content=content, num_threads=1)
            interpreter.allocate_tensors()
            ops, partitions = placed_ops(interpreter)
            del interpreter, content
            session = Signature(compile_model(path, self.environment, threads=1), function)
        except RuntimeError as error:  # LiteRT's only exception
            return None, {"ops": [], "error": str(error)}
        return session, {"seconds": round(time.monotonic() - began, 2), "partitions": partitions, "ops": ops}

    def machine(self):
        version = importlib.metadata.version("ai-edge-litert")
        return {"engine": ENGINE, "version": version, "chip": platform.machine(), "packages": f"ai-edge-litert {version}"}

    def write_contexts(self, emulated, folder):
        raise ValueError("LiteRT compiles nothing that --context-binaries could write")


class Loaded(confirmation.Emulated):
    """A ShardRunner whose shards run in LiteRT with XNNPACK."""

    format, target = "tflite", "litert"

    def compile(self, width):
        return self.compiler.compile(self.folder / width["file"]["path"], width["function"])

    def compared(self):
        return OwnKernels(self)


class OwnKernels(confirmation.Compared, LitertRunner):
    """Runs each shard with LiteRT's own kernels, too."""

    reference, signature = "LiteRT's own kernels", Interpreted

    def model(self, path):
        if path not in self.sessions:
            self.sessions[path] = Interpreter(
                model_path=str(self.folder / path), num_threads=1,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
        return self.sessions[path]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    confirmation.add_arguments(parser, ENGINE, CHIPS, "")
    return confirmation.run(parser, lambda chip: Loader(), Loaded)


if __name__ == "__main__":
    sys.exit(main())
