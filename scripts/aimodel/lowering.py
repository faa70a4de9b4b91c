"""Maps each ONNX op of a shard to a call of a function of coreai.authoring, as data.

The table is indexed by the name of the ONNX op. Ops and attributes that it lacks are rejected by name.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import TensorProto

from aimodel.graph import DTYPES, INTEGERS, RE_EXPORT
from aimodel.refusal import require

BOOL = np.dtype(np.bool_)
FLOATS = (np.dtype(np.float16), np.dtype(np.float32))


@dataclass(frozen=True)
class Call:
    """A call coreai.authoring.FUNCTION(*operands). Operands are names of values, nested calls, lists of names, types, and
    arrays, which become constants in the integer types that Apple's ops require."""

    function: str
    operands: tuple


def where(graph, node):
    return f"{graph.file}: {node}"


def operand_types(graph, node, count=None):
    types = [graph.types[name] for name in node.inputs]
    require(count is None or len(types) == count, "op", f"{where(graph, node)} has {len(types)} operands", RE_EXPORT)
    return types


def need(graph, node, types, dtypes):
    for tensor in types:
        require(tensor.dtype in dtypes, "dtype", f"{where(graph, node)} reads {tensor}", "export with --dtype f16 or f32")


def integers(graph, node, index):
    """Returns the values of an operand that must be a constant."""
    name = node.inputs[index]
    require(name in graph.constants and graph.types[name].dtype == INTEGERS, "op",
            f"{where(graph, node)}: '{name}' is not a constant of integers", RE_EXPORT)
    return [int(value) for value in graph.constants[name].ravel()]


def axis_of(graph, node, axis, rank):
    require(0 <= axis < rank, "bounds", f"{where(graph, node)}: axis {axis} of {rank}", RE_EXPORT)
    return axis


def u32(values):
    return np.array(values, np.uint32)


def i32(values):
    return np.array(values, np.int32)


def floats(graph, node, count):
    types = operand_types(graph, node, count)
    need(graph, node, types, FLOATS)
    require(len({tensor.dtype for tensor in types}) == 1, "dtype",
            f"{where(graph, node)} mixes {' and '.join(map(str, types))}", RE_EXPORT)
    return types


def unary(function):
    def lower(graph, node):
        floats(graph, node, 1)
        return Call(function, node.inputs)

    return lower


def binary(function, swapped=False):
    def lower(graph, node):
        floats(graph, node, 2)
        return Call(function, node.inputs[::-1] if swapped else node.inputs)

    return lower


def negated(graph, node):
    (tensor,) = floats(graph, node, 1)
    return Call("broadcasting_mul", (node.inputs[0], np.array(-1, tensor.dtype)))


def reciprocal(graph, node):
    (tensor,) = floats(graph, node, 1)
    return Call("broadcasting_divide", (np.array(1, tensor.dtype), node.inputs[0]))


def convolution(graph, node):
    """A convolution without padding, strides and dilations; the bias is added separately."""
    types = floats(graph, node, None)
    require(len(types) in (2, 3) and all(len(tensor.dims) == 4 for tensor in types[:2]), "op",
            f"{where(graph, node)} has the operands {', '.join(map(str, types))}", RE_EXPORT)
    groups = node.attributes.get("group", 1)
    product = Call("conv2d", (*node.inputs[:2], u32([1, 1]), u32([1, 1]), u32(groups)))
    if len(types) == 2:
        return product
    channels = graph.types[node.output].dims[1]
    require(types[2].dims == (channels,), "shape", f"{where(graph, node)}: a bias {types[2]} for {channels} channels",
            RE_EXPORT)
    bias = Call("reshape", (node.inputs[2], u32([1, channels, 1, 1])))
    return Call("broadcasting_add", (product, bias))


def matmul(graph, node):
    """A product of activations, or with per-head weights. Projections must be convolutions: Apple's Linux runtime
    accumulates f16 matmuls in f16 (relative L2 8e-3 instead of 1e-3)."""
    floats(graph, node, 2)
    for name in node.inputs:
        flat = name in graph.constants and len(graph.types[name].dims) < 3
        require(not flat, "form", f"{where(graph, node)}: the projection '{name}' is a matmul",
                "export with --form conv")
    return Call("broadcasting_batch_matmul", node.inputs)


def select(graph, node):
    condition, *values = operand_types(graph, node, 3)
    need(graph, node, [condition], (BOOL,))
    need(graph, node, values, FLOATS)
    return Call("broadcasting_where", node.inputs)


def cast(graph, node):
    to = node.attributes.get("to")
    need(graph, node, operand_types(graph, node, 1), (*FLOATS, BOOL))
    require(DTYPES.get(to) in FLOATS, "dtype",
            f"{where(graph, node)} casts to {TensorProto.DataType.Name(to)}", "export with --dtype f16 or f32")
    return Call("cast", (node.inputs[0], DTYPES[to].type))


def reduction(function):
    def lower(graph, node):
        require(node.attributes.get("keepdims", 1) == 1, "op", f"{where(graph, node)} drops axes", RE_EXPORT)
        axes = node.attributes.get("axes") or (integers(graph, node, 1) if len(node.inputs) == 2 else None)
        require(axes, "op", f"{where(graph, node)} names no axes", RE_EXPORT)
        tensor = graph.types[node.inputs[0]]
        need(graph, node, [tensor], FLOATS)
        axes = [axis_of(graph, node, axis, len(tensor.dims)) for axis in axes]
        kept = u32(graph.types[node.output].dims)  # Core AI removes the reduced axes
        return Call("reshape", (Call(function, (node.inputs[0], i32(axes))), kept))

    return lower


def softmax(graph, node):
    (tensor,) = floats(graph, node, 1)
    return Call("softmax", (node.inputs[0], i32(axis_of(graph, node, node.attributes.get("axis"), len(tensor.dims)))))


def slice_of(graph, node):
    """Checks the bounds of a slice: beyond them, the library returns unrelated memory."""
    dims = operand_types(graph, node, 4)[0].dims
    begins, ends = [0] * len(dims), list(dims)
    for begin, end, axis in zip(*(integers(graph, node, index) for index in (1, 2, 3)), strict=True):
        axis_of(graph, node, axis, len(dims))
        require(0 <= begin < end <= dims[axis], "bounds",
                f"{where(graph, node)} slices {begin} to {end} of {dims[axis]}", RE_EXPORT)
        begins[axis], ends[axis] = begin, end
    return Call("slice_", (node.inputs[0], i32(begins), i32(ends), i32([1] * len(dims))))


def concatenation(graph, node):
    types = operand_types(graph, node)
    require(types and len({tensor.dtype for tensor in types}) == 1, "dtype",
            f"{where(graph, node)} joins {', '.join(map(str, types))}", RE_EXPORT)
    axis = axis_of(graph, node, node.attributes.get("axis"), len(types[0].dims))
    return Call("concat", (i32(axis), list(node.inputs)))


def reshape(graph, node):
    given, wanted = operand_types(graph, node, 2)[0], integers(graph, node, 1)
    require(all(dim > 0 for dim in wanted) and prod(wanted) == prod(given.dims), "shape",
            f"{where(graph, node)} reshapes {given} to {wanted}", RE_EXPORT)
    return Call("reshape", (node.inputs[0], u32(wanted)))


def expanded(graph, node):
    operand_types(graph, node, 2)
    return Call("broadcast_to", (node.inputs[0], u32(integers(graph, node, 1))))


def transposition(graph, node):
    (tensor,), order = operand_types(graph, node, 1), list(node.attributes.get("perm", ()))
    require(sorted(order) == list(range(len(tensor.dims))), "op", f"{where(graph, node)} permutes {tensor} by {order}",
            RE_EXPORT)
    return Call("transpose", (node.inputs[0], u32(order)))


def identity(graph, node):
    (tensor,) = operand_types(graph, node, 1)
    return Call("reshape", (node.inputs[0], u32(tensor.dims)))  # Core AI has no op that copies


# ONNX op → (supported attributes, lowering)
OPS = {
    "Abs": ((), unary("abs_")), "Exp": ((), unary("exp")), "Log": ((), unary("log")), "Sqrt": ((), unary("sqrt")),
    "Sigmoid": ((), unary("sigmoid")), "Tanh": ((), unary("tanh")), "Erf": ((), unary("erf")),
    "Neg": ((), negated), "Reciprocal": ((), reciprocal),
    "Add": ((), binary("broadcasting_add")), "Sub": ((), binary("broadcasting_sub")),
    "Mul": ((), binary("broadcasting_mul")), "Div": ((), binary("broadcasting_divide")),
    "Max": ((), binary("broadcasting_maximum")), "Min": ((), binary("broadcasting_minimum")),
    "Greater": ((), binary("broadcasting_greater")), "Less": ((), binary("broadcasting_greater", swapped=True)),
    "Equal": ((), binary("broadcasting_equal")), "Where": ((), select), "Cast": (("to",), cast),
    "Conv": (("group",), convolution), "MatMul": ((), matmul), "Softmax": (("axis",), softmax),
    "ReduceSum": (("keepdims",), reduction("reduce_sum")),
    "ReduceMean": (("axes", "keepdims"), reduction("reduce_mean")),
    "ReduceMax": (("axes", "keepdims"), reduction("reduce_max")),
    "Slice": ((), slice_of), "Concat": (("axis",), concatenation), "Reshape": ((), reshape), "Expand": ((), expanded),
    "Transpose": (("perm",), transposition), "Identity": ((), identity),
}


def lower_node(graph, node):
    """Returns the call that computes a node's value. Raises Refused."""
    require(node.op in OPS, "op", f"{where(graph, node)} is an op that this script does not support",
            "export with --routing rank, iterate or host, and --weights float")
    attributes, lower = OPS[node.op]
    for name in node.attributes:
        require(name in attributes, "attribute", f"{where(graph, node)} has the unsupported attribute '{name}'", RE_EXPORT)
    return lower(graph, node)
