"""Writes one shard as a Core AI asset, then loads it with Apple's runtime. Runs as a separate process, because the library
aborts the process on some errors.

    python author.py EXPORT ASSET FUNCTION=FILE…

Prints, as JSON on its last line, the functions of the written asset and their ports.
"""

import asyncio
import hashlib
import inspect
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import coreai.authoring as authoring
import numpy as np
from coreai._compiler.dialects.coreai import ConstantOp
from coreai._compiler.ir import DenseResourceElementsAttr
from coreai.authoring.operation import Value
from coreai.runtime import AIModelAssetMetadata

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from aimodel.graph import read_graph  # noqa: E402
from aimodel.lowering import Call, lower_node  # noqa: E402

INLINE_BYTES = 64  # larger constants go to the resource section instead of the program
ABOUT = ("Made by scripts/export_coreai.py of moec. Such assets load and compute correctly in Apple's Linux runtime, the "
         "CPU interpreter of coreai-core; none has run on a device.")
DIALECT = "moec"  # namespace of op ids, which are positions of ONNX nodes


class Author:
    """Builds the functions of one shard."""

    def __init__(self):
        self.resources = {}  # (digest, type) → attribute, so that widths share their weights

    def constant(self, array):
        """Makes a constant. Large ones are named by their content: the library's random names would not be reproducible."""
        array = np.asarray(array, order="C")  # keeps scalars scalar
        if array.nbytes <= INLINE_BYTES:
            return authoring.constant.constant(array)
        key = (hashlib.sha256(array).hexdigest(), array.dtype, array.shape)
        if key not in self.resources:
            kind = authoring.TensorType(array.shape, array.dtype.type)._to_mlir()
            self.resources[key] = DenseResourceElementsAttr.get_from_buffer(array, f"sha256_{key[0][:32]}", kind)
        return Value._from_mlir(ConstantOp(value=self.resources[key]).result)

    def call(self, operand, values):
        """Converts an operand to the library's type; executes nested calls."""
        if isinstance(operand, str):
            return values[operand]
        if isinstance(operand, list):
            return [values[name] for name in operand]
        if isinstance(operand, np.ndarray):
            return self.constant(operand)
        if not isinstance(operand, Call):
            return operand
        return getattr(authoring, operand.function)(*(self.call(one, values) for one in operand.operands))

    def body(self, graph, function, arguments):
        values = dict(zip(graph.inputs, arguments, strict=True))
        with location(graph.file, function, 0):
            values |= {name: self.constant(array) for name, array in graph.constants.items() if array.dtype.kind != "i"}
        for index, node in enumerate(graph.nodes, 1):
            with location(graph.file, function, index):
                values[node.output] = made = self.call(lower_node(graph, node), values)
            check_type(graph, node, made)
        return tuple(values[name] for name in graph.outputs)

    def add(self, graph, function):
        """Adds a graph to the module under construction, as a function of that name."""

        def body(*arguments):
            return self.body(graph, function, arguments)

        described = {name: annotation(tensor) for name, tensor in graph.inputs.items()}
        results = tuple(annotation(tensor, name) for name, tensor in graph.outputs.items())
        body.__annotations__ = described | {"return": tuple[results]}
        body.__signature__ = inspect.Signature(
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in described])
        authoring.graph(body, provided_name=function)


def annotation(tensor, name=None):
    return Annotated[Value, authoring.TensorType(tensor.dims, tensor.dtype.type, name=name)]


@contextmanager
def location(file, function, index):
    """Debug location of ops: the ONNX file and the position of the node, starting at 1."""
    scope = authoring.SymbolRefScope(function)
    info = authoring.DebugInfo.file(Path(file).name, index).with_scope(scope).with_op_id(DIALECT, index)
    with info.activate():
        yield


def check_type(graph, node, made):
    """Compares the type that the library infers with the type that the ONNX file declares."""
    wanted = graph.types[node.output]
    got = made.type
    if (tuple(got.shape), np.dtype(got.dtype.numpy)) != (wanted.dims, wanted.dtype):
        raise ValueError(f"{graph.file}: {node} would have the type {got}, expected {wanted}")


def write_metadata(asset):
    """Writes the description, and metadata.json in a fixed form: the library's field order and time are not reproducible."""
    path = asset / "metadata.json"
    said = json.loads(path.read_text()) | {"creationDate": "19700101T000000Z"}
    path.write_text(json.dumps(said, indent=1, sort_keys=True) + "\n")


def ports_of(names, describe):
    return {name: [describe(name).dtype, list(describe(name).shape)] for name in names}


async def functions_of(asset):
    """Lowers and loads an asset; returns its functions as described by the runtime."""
    async with authoring.AIModelAsset.load(asset).executable() as model:
        described = {name: model.load_function(name).desc for name in model.function_names}
        return {name: {"inputs": ports_of(one.input_names, one.input_descriptor),
                       "outputs": ports_of(one.output_names, one.output_descriptor)} for name, one in described.items()}


def main(export, asset, *widths):
    author, module = Author(), authoring.Module.create()
    with module:
        for width in widths:
            function, file = width.split("=", 1)
            author.add(read_graph(export, file), function)
    metadata = AIModelAssetMetadata()
    metadata.model_description = ABOUT
    authoring.AIProgram(module).save_asset(Path(asset), metadata)
    write_metadata(Path(asset))
    print(json.dumps(asyncio.run(functions_of(asset))), flush=True)
    os._exit(0)  # skips the library's destructors


if __name__ == "__main__":
    main(*sys.argv[1:])
