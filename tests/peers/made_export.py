"""A handmade export with one shard, whose graph has each op that scripts/export_coreai.py translates."""

import json

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHAPE = [1, 6, 1, 4]
EDGES = [0.0, -0.0, 1.5, -2.0, 300.0, -300.0, np.nan, np.inf, -np.inf, 6e-8, 0.25, -0.75]


def integers(name, values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


class Made:
    """An export with one shard and one graph, which a test may damage before writing it."""

    def __init__(self, dtype=np.float32):
        self.dtype, self.nodes, self.outputs, self.constants = np.dtype(dtype), [], {}, {}
        self.inputs = {"x": SHAPE, "y": SHAPE}

    def add(self, op, inputs, dims=SHAPE, boolean=False, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=f"node/{name}", **attributes))
        self.outputs[name] = (dims, boolean)
        return name

    def constant(self, name, values, dtype=None):
        values = np.array(values, dtype or self.dtype)
        self.constants[name] = numpy_helper.from_array(values, name)
        return name

    def ints(self, *values):
        name = f"i{len(self.constants)}"
        self.constants[name] = integers(name, list(values))
        return name

    def kind(self, boolean=False):
        return TensorProto.BOOL if boolean else helper.np_dtype_to_tensor_dtype(self.dtype)

    def infos(self, tensors):
        return [helper.make_tensor_value_info(name, self.kind(boolean), dims) for name, dims, boolean in tensors]

    def write(self, folder, spoil=lambda model, manifest: None):
        ports = [name for name, (_, boolean) in self.outputs.items() if not boolean]
        graph = helper.make_graph(
            self.nodes, "made", self.infos((name, dims, False) for name, dims in self.inputs.items()),
            self.infos((name, self.outputs[name][0], False) for name in ports), list(self.constants.values()),
            value_info=self.infos((name, dims, True) for name, (dims, boolean) in self.outputs.items() if boolean))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        manifest = self.manifest(ports)
        spoil(model, manifest)
        folder.mkdir()
        (folder / "made.onnx").write_bytes(model.SerializeToString())
        (folder / "manifest.json").write_text(json.dumps(manifest))
        return folder

    def manifest(self, ports):
        dtype = {"float32": "f32", "float16": "f16"}[self.dtype.name]
        width = {"tokens": 1, "file": {"path": "made.onnx", "digest": ""},
                 "inputs": [{"name": name, "dtype": dtype, "dims": dims} for name, dims in self.inputs.items()],
                 "outputs": [{"name": name, "dtype": dtype, "dims": self.outputs[name][0]} for name in ports]}
        return {"build": {"format": "onnx", "layout": "bc1s", "dtype": dtype, "weights": "float"},
                "shards": [{"name": "made", "widths": [width]}]}


def every_op(dtype):
    """A graph with each op of the table, on edge values where the op accepts any. The maximum of values that
    include NaN is NaN in Core AI and another value in onnxruntime; ONNX does not define it, and shards of moec
    replace NaNs first."""
    made = Made(dtype)
    for op in ("Abs", "Exp", "Log", "Sqrt", "Sigmoid", "Tanh", "Erf", "Neg", "Reciprocal"):
        made.add(op, ["x"])
    made.add("Identity", ["x"])
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        made.add(op, ["x", "y"])
        made.add(op, ["y", made.constant(f"column.{op}", np.linspace(-2, 2, 6).reshape(6, 1, 1))])
    for op in ("Greater", "Less", "Equal"):
        for pair in (["x", "y"], ["x", "x"]):
            compared = made.add(op, pair, boolean=True)
            made.add("Where", [compared, "x", "y"])
            made.add("Cast", [compared], to=int(made.kind()))
    weight = made.constant("weight", np.linspace(-1, 1, 8 * 3).reshape(8, 3, 1, 1))
    made.add("Conv", ["y", weight, made.constant("bias", np.arange(8))], [1, 8, 1, 4], group=2)
    made.add("MatMul", ["y", made.constant("heads", np.linspace(-1, 1, 6 * 4 * 2).reshape(1, 6, 4, 2))], [1, 6, 1, 2])
    for axis in (1, 3):
        kept = [1 if at == axis else dim for at, dim in enumerate(SHAPE)]
        made.add("Softmax", ["y"], axis=axis)
        made.add("ReduceSum", ["y", made.ints(axis)], kept, keepdims=1)
        made.add("ReduceMean", ["y"], kept, axes=[axis], keepdims=1)
        made.add("ReduceMax", ["y"], kept, axes=[axis], keepdims=1)
        made.add("Concat", ["x", "y"], [dim * 2 if at == axis else dim for at, dim in enumerate(SHAPE)], axis=axis)
    made.add("Slice", ["x", made.ints(2), made.ints(5), made.ints(1)], [1, 3, 1, 4])
    made.add("Reshape", ["x", made.ints(2, 3, 4)], [2, 3, 4])
    made.add("Transpose", ["x"], [1, 4, 6, 1], perm=[0, 3, 1, 2])
    made.add("Expand", [made.constant("one", 1.5), made.ints(*SHAPE)])
    return made
