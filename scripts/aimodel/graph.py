"""Reads an ONNX file of an export as a checked graph, without onnxruntime and Apple's library.

Apple's library checks types and shapes of operands. It does not check bounds of slices, bytes of a constant, or names
of ports: it reads memory beyond a tensor, or aborts the process. This module checks all three before anything is
written.
"""

from dataclasses import dataclass, field
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from aimodel.refusal import require

OPSET = 17  # the opset of moec's files
DTYPES = {TensorProto.FLOAT: np.dtype(np.float32), TensorProto.FLOAT16: np.dtype(np.float16),
          TensorProto.BOOL: np.dtype(np.bool_), TensorProto.INT64: np.dtype(np.int64)}
INTEGERS = np.dtype(np.int64)  # of axes, bounds and shapes, which become constants of the op
RE_EXPORT = "export again with this version of moec, or run moec check OUT to find other problems"
UNCODED = "export with --weights float --dtype f16 or f32"


@dataclass(frozen=True)
class Tensor:
    dtype: np.dtype
    dims: tuple[int, ...]

    def __str__(self):
        return f"{self.dtype}{list(self.dims)}"


@dataclass(frozen=True)
class Node:
    name: str
    op: str
    inputs: tuple[str, ...]
    output: str
    attributes: dict

    def __str__(self):
        return f"node '{self.name}' ({self.op})"


@dataclass
class Graph:
    """One token width of a shard: straight-line code in topological order."""

    file: str  # path in the export, for messages
    inputs: dict[str, Tensor] = field(default_factory=dict)
    outputs: dict[str, Tensor] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    types: dict[str, Tensor] = field(default_factory=dict)  # of every value


def tensor_of(info, file):
    kind = info.type.tensor_type
    name = TensorProto.DataType.Name(kind.elem_type)
    require(kind.elem_type in DTYPES, "dtype", f"{file}: '{info.name}' has the type {name}", UNCODED)
    dims = tuple(dim.dim_value for dim in kind.shape.dim)
    # A symbolic dimension reads as 0. Apple's library aborts the process on a tensor without elements.
    require(all(dim > 0 for dim in dims), "shape", f"{file}: '{info.name}' has the shape {list(dims)}", RE_EXPORT)
    return Tensor(DTYPES[kind.elem_type], dims)


def external_bytes(tensor, file, folder):
    """Maps the bytes of an initializer in a data file. Checks that they are within the file."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    path = (folder / file).parent / said.get("location", "")
    inside = path.resolve().is_relative_to(folder.resolve()) and path.is_file()
    require(inside, "data", f"{file}: the data of '{tensor.name}' is in '{said.get('location')}', outside OUT", RE_EXPORT)
    offset, length = int(said.get("offset", 0)), int(said.get("length", -1))
    size = path.stat().st_size
    require(0 <= offset and 0 < length <= size - offset, "data",
            f"{file}: '{tensor.name}' uses bytes {offset} to {offset + length} of {path.name}, which has {size}", RE_EXPORT)
    return np.memmap(path, np.uint8, "r", offset, (length,))


def constant_of(tensor, file, folder):
    name = TensorProto.DataType.Name(tensor.data_type)
    # Also rejects quantized weights. Core AI requires less than 8 bits to be packed, low bits first, but Apple's
    # constant() stores 4-bit numbers unpacked, which produces wrong results without an error.
    require(tensor.data_type in DTYPES, "dtype", f"{file}: the constant '{tensor.name}' has the type {name}", UNCODED)
    dtype, dims = DTYPES[tensor.data_type], tuple(tensor.dims)
    require(all(dim > 0 for dim in dims), "shape", f"{file}: '{tensor.name}' has the shape {list(dims)}", RE_EXPORT)
    if tensor.data_location != TensorProto.EXTERNAL:
        return numpy_helper.to_array(tensor)
    data, wanted = external_bytes(tensor, file, folder), prod(dims) * dtype.itemsize
    require(len(data) == wanted, "data", f"{file}: '{tensor.name}', {Tensor(dtype, dims)}, has {len(data)} bytes "
            f"instead of {wanted}", RE_EXPORT)
    return data.view(dtype).reshape(dims)


def node_of(proto, file):
    node = Node(proto.name, proto.op_type, tuple(proto.input), proto.output[0] if proto.output else "",
                {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in proto.attribute})
    require(proto.domain in ("", "ai.onnx"), "op", f"{file}: {node} has the unsupported domain {proto.domain}", UNCODED)
    require(len(proto.output) == 1, "op", f"{file}: {node} has {len(proto.output)} outputs",
            "export with --routing rank, iterate or host")
    return node


def add_value(graph, name, tensor):
    require(name and name not in graph.types, "names", f"{graph.file}: '{name}' names two values", RE_EXPORT)
    graph.types[name] = tensor


def add_node(graph, node, declared):
    for name in node.inputs:
        require(name in graph.types, "names", f"{graph.file}: {node} reads '{name}' before its definition", RE_EXPORT)
    require(node.output in declared, "names", f"{graph.file}: {node} declares no type of '{node.output}'", RE_EXPORT)
    add_value(graph, node.output, declared[node.output])
    graph.nodes.append(node)


def read_model(path, file):
    try:
        return onnx.load(path, load_external_data=False)
    except Exception as error:  # protobuf's exceptions have no common base class
        require(False, "file", f"{file}: {error}", RE_EXPORT)


def read_graph(folder, file):
    """Returns the graph of a file with mapped constants. Raises Refused."""
    folder = Path(folder)
    model = read_model(folder / file, file)
    opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    require(opsets == {"ai.onnx": OPSET}, "opset", f"{file} uses {opsets} instead of opset {OPSET} of ONNX", UNCODED)
    graph, proto = Graph(file), model.graph
    for info in proto.input:
        graph.inputs[info.name] = tensor_of(info, file)
        add_value(graph, info.name, graph.inputs[info.name])
    for tensor in proto.initializer:
        graph.constants[tensor.name] = constant_of(tensor, file, folder)
        add_value(graph, tensor.name, Tensor(DTYPES[tensor.data_type], tuple(tensor.dims)))
    declared = {info.name: tensor_of(info, file) for info in (*proto.value_info, *proto.output)}
    for node in proto.node:
        add_node(graph, node_of(node, file), declared)
    for info in proto.output:
        require(info.name in graph.types and info.name not in graph.outputs, "names",
                f"{file}: the output '{info.name}' is not defined exactly once", RE_EXPORT)
        graph.outputs[info.name] = declared[info.name]
    return graph
