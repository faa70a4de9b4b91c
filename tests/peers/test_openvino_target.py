"""Exports for `--target openvino` in the Python package openvino, on its CPU device: results, weight forms, and the facts
that the rules of backends/targets/openvino.json state as measured.

Requires neither a build of moec with OpenVINO nor an Intel device. No NPU was measured, because the wheel lacks the NPU
compiler.
"""

import collections
import json

import numpy as np
import onnx
import pytest

from comparison import Comparison, compare
from gguf_models import write_gguf
from goldens import CASES, IN_EVERY_FORM, REPO
from run_with_onnxruntime import Runner

openvino = pytest.importorskip("openvino")

TINYMOE = REPO / "models/tinymoe"
# The settings of moec's own engine: without the last two, a CPU multiplies codes with activations in 8 bits.
F32 = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
CORE = openvino.Core()
# Minimum cosine of the logits of a chain: the files are f16, which the CPU computes in f32.
LOGITS_COSINE = 0.9999
# The ops of exports that the reader of Intel's NPU compiler maps, or that earlier passes replace: Slice and VariadicSplit
# (openvinotoolkit/npu_compiler, src/vpux_compiler/src/frontend/IE.cpp, December 2024).
NPU_OPS = {
    "Abs", "Add", "Broadcast", "Concat", "Constant", "Convert", "Convolution", "Divide", "Equal", "Erf", "Exp", "Greater",
    "GroupConvolution", "Less", "Log", "MatMul", "Maximum", "Minimum", "Multiply", "Negative", "ReduceMax", "ReduceMean",
    "ReduceSum", "Reshape", "Select", "ShapeOf", "Sigmoid", "Slice", "Softmax", "Sqrt", "Subtract", "Tanh", "Transpose",
    "VariadicSplit"}
# The ops that ConvertTiledMoeBlockToGatherMatmuls of OpenVINO matches, besides ops that every graph has.
TILED = {"Tile", "ScatterElementsUpdate"}
MOE_FORMS = {
    "rank": (),
    "bank": ("--experts", "bank"),
    "iterate": ("--routing", "iterate"),
    "host": ("--routing", "host", "--experts-per-shard", "4"),
    "conv": ("--form", "conv"),
}
# Rejected for the target by rule V3; this is the only routing with a TopK, which the matcher also requires.
TOP_K_FORMS = {
    "topk": ("--routing", "topk"),
    "topk_bank": ("--routing", "topk", "--experts", "bank"),
}
# Element type of the constants that products multiply with, by --weights. Rows of a single block become rows of i8.
CODES = {
    "int4:32": "u4", "int4:64": "u4", "int4:128": "u4", "int4:32:zero": "u4", "int4:128:zero": "u4",
    "int8:32": "u8", "int8:64:zero": "u8", "int8:128": "i8", "int8": "i8", "int8:tensor": "i8"}


class Compiled:
    """A compiled file with the interface of onnxruntime's sessions that Runner uses."""

    def __init__(self, path):
        self.model = CORE.compile_model(CORE.read_model(path), "CPU", F32)

    def run(self, names, feeds):
        found = self.model(feeds)
        return [found[name].copy() for name in names]


class OpenvinoRunner(Runner):
    def open_session(self, path):
        return Compiled(path)


@pytest.fixture
def export_for(export):
    """export_for(checkpoint, flags…) → the folder of an export for the target with the widths 1 and 24."""
    return lambda checkpoint, *flags: export(checkpoint, "--target", "openvino", "--tokens", "1,24", *flags)


def files_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return [folder / width["file"]["path"] for shard in manifest["shards"] for width in shard["widths"]]


def read_ops(path):
    return collections.Counter(op.get_type_name() for op in CORE.read_model(path).get_ordered_ops())


def runtime_nodes(path):
    """Yields (layer type, element types of its results, node) for each node that the CPU runs."""
    for node in CORE.compile_model(path, "CPU", F32).get_runtime_model().get_ordered_ops():
        facts = node.get_rt_info()
        yield facts["layerType"].value, facts["outputPrecisions"].value, node


def types_of_factors(path):
    """Counts, per element type of the constants, the products of the runtime model."""
    found = collections.Counter()
    for layer, _, node in runtime_nodes(path):
        if layer == "FullyConnected":
            found[node.input_value(1).get_node().get_rt_info()["outputPrecisions"].value] += 1
    return found


def chain_of(runner, want):
    """Compares the logits of all steps of the golden with PyTorch's."""
    worst = Comparison()
    runner.reset()
    for name, position, tokens in want.steps:
        assert position == runner.position
        worst.add(compare(runner.feed(tokens), want.rows(name, "logits")))
    return worst


@pytest.mark.parametrize("case", IN_EVERY_FORM)
def test_chains_match_the_golden(case, export_for, golden, moec, worst):
    want = golden(case)
    folder = export_for(want.checkpoint)
    moec("check", folder)
    found = chain_of(OpenvinoRunner(folder, threads=1), want)
    worst["openvino CPU chain"].add(found)
    assert found.cosine >= LOGITS_COSINE, found


@pytest.mark.parametrize("case", CASES)
def test_shapes_are_static_and_npus_support_ops(case, export_for, golden):
    for path in files_of(export_for(golden(case).checkpoint)):
        model = CORE.read_model(path)
        assert not model.is_dynamic(), path
        assert set(read_ops(path)) - {"Parameter", "Result"} <= NPU_OPS, path


def same_text(folder):
    prompt = list(b"def f(")
    return [list(runner(folder, threads=1).generate(prompt, 24)) for runner in (OpenvinoRunner, Runner)]


@pytest.mark.parametrize("form", MOE_FORMS)
def test_moe_forms_generate_equal_text(form, export_for):
    ours, theirs = same_text(export_for(TINYMOE, *MOE_FORMS[form]))
    assert ours == theirs


def check_tiles(folder):
    """Expects that no file has a node that the matcher needs, and that no compiled graph has a result of the
    matcher."""
    paths = [path for path in files_of(folder) if path.parent.name != "attn"]
    assert paths
    for path in paths:
        assert not TILED & set(read_ops(path)), path
        assert not [layer for layer, _, _ in runtime_nodes(path) if "GatherMatmul" in layer], path


@pytest.mark.parametrize("form", MOE_FORMS)
def test_moe_forms_never_match_the_tiled_block(form, export_for):
    check_tiles(export_for(TINYMOE, *MOE_FORMS[form]))


@pytest.mark.parametrize("form", TOP_K_FORMS)
def test_top_k_forms_never_match_the_tiled_block(form, export):
    check_tiles(export(TINYMOE, "--target", "onnx", "--dtype", "f16", "--form", "matmul", *TOP_K_FORMS[form]))


@pytest.mark.parametrize("form", TOP_K_FORMS)
def test_rejects_top_k(form, moec, tmp_path):
    with pytest.raises(AssertionError, match=r"error\[target\.V3\]"):
        moec("export", TINYMOE, "--out", tmp_path / "out", "--target", "openvino", *TOP_K_FORMS[form])


@pytest.mark.parametrize("weights", CODES)
def test_codes_stay_compressed(weights, export_for):
    """Gate and up matrices of tinymoe's 16 experts have 128 inputs. Down matrices have 80, which no block size divides
    (rule V7). The router is float."""
    folder = export_for(TINYMOE, "--weights", weights)
    ours, theirs = same_text(folder)
    assert ours == theirs
    found = types_of_factors(folder / "moe/L00.t1.onnx")
    even = weights in ("int8", "int8:tensor")  # without blocks along the inputs
    assert found == {CODES[weights]: 48 if even else 32, "f32": 1 if even else 17}


def test_convolutions_decode_codes_in_each_run(export_for):
    path = export_for(TINYMOE, "--weights", "int8", "--form", "conv") / "moe/L00.t1.onnx"
    layers = collections.Counter(layer for layer, _, _ in runtime_nodes(path))
    assert (layers["Convolution"], layers["Convert"]) == (49, 48)


@pytest.mark.parametrize("stored", ["Q4_0", "Q4_1", "Q8_0"])
def test_blocks_of_gguf_are_read_without_loss(stored, export_for, tmp_path):
    [file] = write_gguf(TINYMOE, tmp_path / "stored.gguf", stored)
    folder = export_for(file, "--weights", "copy", "--dtype", "f32")
    assert any(node.op_type == "MatMulNBits" for path in files_of(folder)
               for node in onnx.load(path, load_external_data=False).graph.node)
    ours, theirs = (runner(folder, threads=1).feed(list(b"def tokens")) for runner in (OpenvinoRunner, Runner))
    assert compare(ours, theirs).relative_l2 < 1e-5


def top_k_model(rows, scores, chosen):
    make, types = onnx.helper, onnx.TensorProto
    ports = [make.make_tensor_value_info(name, kind, [rows, count])
             for name, kind, count in (("x", types.FLOAT, scores), ("v", types.FLOAT, chosen), ("i", types.INT64, chosen))]
    node = make.make_node("TopK", ["x", "k"], ["v", "i"], axis=1)
    graph = make.make_graph([node], "top_k", ports[:1], ports[1:], [make.make_tensor("k", types.INT64, [1], [chosen])])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)
    return CORE.read_model(model.SerializeToString())


def test_top_k_ties_are_unordered():
    """Rule V3: the reader guarantees no order for equal scores, and some rows select another set."""
    model = top_k_model(16, 64, 8)
    [node] = [op for op in model.get_ordered_ops() if op.get_type_name() == "TopK"]
    assert node.get_attributes()["stable"] is False
    compiled = CORE.compile_model(model, "CPU", F32)
    random, others = np.random.default_rng(0), 0
    for _ in range(400):
        scores = random.integers(0, 4, (16, 64)).astype(np.float32)
        lowest = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :8], axis=1)
        others += (np.sort(compiled(scores)[1], axis=1) != lowest).any(axis=1).sum()
    if others == 0:
        pytest.skip("this CPU preserves the order of ties")


def test_wheel_lacks_the_npu_compiler():
    """With the compiler, the rules could be measured without a device."""
    if "NPU" in CORE.available_devices:
        pytest.skip("this machine has an NPU")
    model = top_k_model(1, 8, 2)
    with pytest.raises(RuntimeError, match="(?i)compiler|device"):
        CORE.compile_model(model, "NPU", {"NPU_COMPILER_TYPE": "PLUGIN", "NPU_PLATFORM": "4000"})
