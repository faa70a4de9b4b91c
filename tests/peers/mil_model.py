"""A stand-in for coremltools' MLModel on Linux, where coremltools cannot run a package.

MilModel has the interface that scripts/run_with_coreml.py uses, and interprets the operations of a package in numpy. It
reads the package with coremltools' schema and shares no code with moec. It computes in f32 and rounds inputs, outputs and
states to f16. It raises Rejected for calls that Core ML rejects, and for a state of another model, which Core ML's
documentation does not mention.
"""

import math
from pathlib import Path

import numpy as np

from coreml_packages import load_spec
from coremltools_values import read_blob

FLOAT16 = 10  # MIL's DataType


class Rejected(Exception):
    """A call that MilModel rejects."""


def require(condition, message):
    if not condition:
        raise Rejected(message)


def value_of(value, blobs):
    """The array of a constant; f16 becomes f32, in which all operations compute."""
    kind = value.type.tensorType
    if value.WhichOneof("value") == "blobFileValue":
        return np.asarray(read_blob(blobs, value), np.float32)
    tensor = value.immediateValue.tensor
    held = getattr(tensor, tensor.WhichOneof("value")).values
    shape = [dimension.constant.size for dimension in kind.dimensions]
    if isinstance(held, bytes):
        held = np.frombuffer(held, np.float16 if kind.dataType == FLOAT16 else np.int8)
        held = held.astype(np.float32 if kind.dataType == FLOAT16 else np.int32)
    return np.asarray(held).reshape(shape)


def convolve(x, weight, strides, dilations, pad_type, pad=None, bias=None, groups=1):
    """A convolution with steps of 1: a sum of products over the positions of the kernel."""
    assert not (np.any(strides != 1) or np.any(dilations != 1)) and pad_type in ("valid", "custom")
    if pad_type == "custom":
        x = np.pad(x, ((0, 0), (0, 0), tuple(pad[:2]), tuple(pad[2:])))
    count, rows, columns = len(x), *(np.array(x.shape[2:]) - weight.shape[2:] + 1)
    result = 0
    for i, j in np.ndindex(*weight.shape[2:]):
        part = x[:, :, i : i + rows, j : j + columns].reshape(count, groups, weight.shape[1], rows * columns)
        result = result + np.matmul(weight[:, :, i, j].reshape(groups, -1, weight.shape[1]), part)
    result = result.reshape(count, -1, rows, columns)
    return result if bias is None else result + bias.reshape(1, -1, 1, 1)


def multiply(x, y, transpose_x=False, transpose_y=False):
    return np.matmul(x.swapaxes(-1, -2) if transpose_x else x, y.swapaxes(-1, -2) if transpose_y else y)


def cut(x, begin, size):
    return x[tuple(slice(b, b + s if s >= 0 else None) for b, s in zip(begin, size))]


def softmax(x, axis):
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def reduction(function):
    return lambda x, axes, keep_dims: function(x, axis=tuple(axes), keepdims=bool(keep_dims))


OPERATIONS = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "real_div": lambda x, y: x / y,
    "maximum": lambda x, y: np.maximum(x, y), "minimum": lambda x, y: np.minimum(x, y),
    "greater": lambda x, y: x > y, "less": lambda x, y: x < y, "equal": lambda x, y: x == y,
    "select": lambda cond, a, b: np.where(cond, a, b),
    "sqrt": lambda x: np.sqrt(x), "exp": lambda x: np.exp(x), "tanh": lambda x: np.tanh(x), "abs": lambda x: np.abs(x),
    "sigmoid": lambda x: (1 + np.tanh(x / 2)) / 2, "inverse": lambda x, epsilon: 1 / (x + epsilon),
    "erf": lambda x: np.vectorize(math.erf, [np.float32])(x),
    "reduce_max": reduction(np.max), "reduce_sum": reduction(np.sum), "reduce_mean": reduction(np.mean),
    "reshape": lambda x, shape: x.reshape(shape), "transpose": lambda x, perm: x.transpose(perm),
    "concat": lambda values, axis, interleave: np.concatenate(values, axis), "identity": lambda x: x,
    "slice_by_size": cut, "softmax": softmax, "matmul": multiply, "conv": convolve,
}  # fmt: skip


class MilState:
    """The states of a model in f16, initially zeros, with the interface of coremltools' MLState."""

    def __init__(self, model):
        self.model = model
        self.values = {name: np.zeros(shape, np.float32) for name, shape in model.states.items()}

    def read_state(self, name):
        return self.values[name].copy()

    def write_state(self, name, value):
        require(value.dtype == np.float32, "coremltools cannot write f16")
        require(value.shape == self.values[name].shape, f"{name}: {value.shape}, not {self.values[name].shape}")
        self.values[name] = rounded(value)


def rounded(array):
    return array.astype(np.float16).astype(np.float32)


class MilModel:
    """One function of a package."""

    def __init__(self, package, units, function):
        spec = load_spec(str(package))
        names = list(spec.mlProgram.functions)
        name = function or spec.description.defaultFunctionName or "main"
        require(name in names, f"{package} has the functions {names}, not '{name}'")
        described = next((each for each in spec.description.functions if each.name == name), spec.description)
        self.units = units
        self.inputs = {port.name: port.type.multiArrayType for port in described.input}
        self.outputs = [port.name for port in described.output]
        self.states = {port.name: tuple(port.type.stateType.arrayType.shape) for port in described.state}
        blobs = (Path(package) / "Data/com.apple.CoreML/weights/weight.bin").read_bytes()
        self.compile(spec.mlProgram.functions[name], blobs)

    def compile(self, function, blobs):
        """Resolves constants once. `steps` has the type, output and arguments of each other operation; an argument is an
        array, a name, or a list of names."""
        self.constants, self.steps = {}, []
        for operation in function.block_specializations[function.opset].operations:
            output = operation.outputs[0].name if operation.outputs else ""
            if operation.type == "const":
                self.constants[output] = value_of(operation.attributes["val"], blobs)
                continue
            arguments = {}
            for name, argument in operation.inputs.items():
                bound = [each.name if each.WhichOneof("binding") == "name" else value_of(each.value, blobs)
                         for each in argument.arguments]
                arguments[name] = bound if name == "values" else bound[0]
            self.steps.append((operation.type, output, arguments))

    def make_state(self):
        return MilState(self)

    def check(self, data, state):
        require(set(data) == set(self.inputs), f"inputs {sorted(data)}, not {sorted(self.inputs)}")
        for name, array in data.items():
            port = self.inputs[name]
            ranges = port.shapeRange.sizeRanges
            fits = (all(r.lowerBound <= size <= r.upperBound for r, size in zip(ranges, array.shape))
                    if port.WhichOneof("ShapeFlexibility") == "shapeRange" else tuple(port.shape) == array.shape)
            require(fits and array.dtype in (np.float16, np.float32), f"{name}: {array.shape} {array.dtype}")
        require(not self.states or state and state.model is self, "the state belongs to another model")

    def predict(self, data, state=None):
        self.check(data, state)
        values = {**self.constants, **{name: rounded(array) for name, array in data.items()}}

        def resolved(argument):
            if isinstance(argument, list):
                return [resolved(each) for each in argument]
            return values[argument] if isinstance(argument, str) else argument

        for kind, output, arguments in self.steps:
            if kind == "read_state":
                values[output] = state.values[arguments["input"]]
            elif kind == "write_state":
                state.values[arguments["input"]] = rounded(resolved(arguments["data"]))
            else:
                values[output] = OPERATIONS[kind](**{key: resolved(each) for key, each in arguments.items()})
        return {name: rounded(values[name]) for name in self.outputs}
