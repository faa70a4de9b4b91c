"""Compressed exports read by numpy, onnxruntime and coremltools: the codes decode to equal values in all three, and
onnxruntime computes with these values."""

import functools
import json

import gguf
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from coremltools_values import constexpr_functions, constexpr_values
from gguf_models import write_gguf
from goldens import REPO
from run_with_onnxruntime import Runner
from safetensors_files import read_checkpoint, read_tensors

TINYMOE = REPO / "models/tinymoe"
ONNX_FORMS = {
    "int8": ("--weights", "int8"),
    "int8:tensor": ("--weights", "int8:tensor"),
    "int8, matmul": ("--weights", "int8", "--form", "matmul"),
    "int8, f16": ("--weights", "int8", "--dtype", "f16"),
    "int8:tensor, f16, matmul": ("--weights", "int8:tensor", "--dtype", "f16", "--form", "matmul"),
    "4bit": ("--weights", "4bit"),
    "int4:64": ("--weights", "int4:64,head=int8"),
    "int4:32:zero": ("--weights", "int4:32:zero"),
    "int8:32": ("--weights", "int8:32"),
    "int8:64:zero": ("--weights", "int8:64:zero"),
    "bank": ("--weights", "4bit", "--experts", "bank"),
}
COREML_FORMS = {
    "int8": ("--weights", "int8"),
    "int8:tensor": ("--weights", "int8:tensor"),
    "4bit": ("--weights", "4bit"),
    "tables": ("--weights", "int4-lut:g16,attn=int6-lut:g8,head=int3-lut:g32,experts@0=int2-lut:tensor,"
                            "experts@1=int1-lut:g16,experts@2=int8-lut:tensor"),
    "bank": ("--weights", "int4-lut:g16", "--experts", "bank"),
}


def shards_of(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    return [(shard["name"], folder / width["file"]["path"])
            for shard in manifest["shards"] for width in shard["widths"]]


@pytest.fixture(scope="module")
def onnx_folder(export):
    return functools.cache(lambda form: export(TINYMOE, "--tokens", "1,16", *ONNX_FORMS[form]))


@pytest.fixture(scope="module")
def coreml_folder(export):
    return functools.cache(
        lambda form: export(TINYMOE, "--target", "ane", "--allow-over-budget", *COREML_FORMS[form]))


def nibbles(packed):
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


def decode_nbits(node, tensors):
    """Returns the weight [K, N], decoded as MatMulNBits documents its codes."""
    of = {attribute.name: attribute.i for attribute in node.attribute}
    numbers = nibbles if of["bits"] == 4 else np.asarray
    codes = numbers(tensors[node.input[1]]).astype(np.float32)  # [N, blocks, block_size]
    scales = tensors[node.input[2]].astype(np.float32).reshape(codes.shape[:2])
    zeros = np.float32(1 << (of["bits"] - 1))
    if len(node.input) > 3:
        packed = tensors[node.input[3]].reshape(of["N"], -1)
        zeros = packed if packed.dtype == np.float32 else numbers(packed)[:, :codes.shape[1]].astype(np.float32)
        zeros = zeros[..., None]
    values = (codes - zeros) * scales[..., None]
    return values.reshape(of["N"], -1)[:, :of["K"]].T


def decode_linear(node, tensors):
    axis = node.attribute[0].i
    codes, scale = tensors[node.input[0]].astype(np.float32), tensors[node.input[1]]
    shape = [1] * codes.ndim
    if scale.ndim:
        shape[axis] = -1
    zero = tensors[node.input[2]].astype(np.float32).reshape(shape) if len(node.input) > 2 else 0
    return (codes - zero) * scale.reshape(shape)


def decode(model):
    """Returns the model with decoded weights, and the weights by name."""
    tensors = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for node in model.graph.node:  # scales of f16 weights
        if node.op_type == "Cast" and node.input[0] in tensors and node.attribute[0].i == TensorProto.FLOAT:
            tensors[node.output[0]] = tensors[node.input[0]].astype(np.float32)
    values, nodes = {}, []
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear":
            values[node.output[0]] = decode_linear(node, tensors)
        elif node.op_type == "MatMulNBits":
            values[node.input[1]] = decode_nbits(node, tensors)
            nodes.append(helper.make_node("MatMul", node.input[:2], node.output))
        else:
            nodes.append(node)
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.graph.node[:], plain.graph.initializer[:]
    plain.graph.node.extend(nodes)
    used = {name for node in nodes for name in node.input}
    plain.graph.initializer.extend(
        [numpy_helper.from_array(np.ascontiguousarray(array, np.float32), name) for name, array in values.items()]
        + [tensor for tensor in model.graph.initializer if tensor.name in used - set(values)])
    stated = [info for info in plain.graph.value_info if info.name not in values]
    del plain.graph.value_info[:]
    plain.graph.value_info.extend(stated)
    return plain, values


def random_inputs(model, seed):
    random = np.random.default_rng(seed)
    types = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}
    return {port.name: random.standard_normal([dim.dim_value for dim in port.type.tensor_type.shape.dim])
            .astype(types[port.type.tensor_type.elem_type]) for port in model.graph.input}


def exact_session(model_or_path):
    """Disables fusions that make onnxruntime round activations to 8 bits."""
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    return onnxruntime.InferenceSession(model_or_path, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("form", ONNX_FORMS)
def test_onnxruntime_uses_the_decoded_values(form, onnx_folder):
    coded = 0
    for name, path in shards_of(onnx_folder(form)):
        model = onnx.load(path)
        onnx.checker.check_model(str(path))
        plain, values = decode(model)
        coded += len(values)
        inputs = random_inputs(model, 3)
        found = exact_session(str(path)).run(None, inputs)
        expected = exact_session(plain.SerializeToString()).run(None, inputs)
        for ours, theirs in zip(found, expected):
            error = np.linalg.norm(np.float32(ours) - np.float32(theirs))
            assert error <= 1e-5 * np.linalg.norm(np.float32(theirs)), name
    assert coded > 100 or form == "bank"


@pytest.mark.parametrize("form", ["4bit", "int8:32"])
def test_blocked_matmuls_accept_three_axes(form, onnx_folder):
    """[1, T, C] is the shape that Qualcomm's compiler requires."""
    found = 0
    for name, path in shards_of(onnx_folder(form)):
        model = onnx.load(path)
        axes = {info.name: len(info.type.tensor_type.shape.dim) for info in model.graph.value_info}
        taken = {axes[node.input[0]] for node in model.graph.node if node.op_type == "MatMulNBits"}
        assert taken <= {3}, name
        found += len(taken)
    assert found > 4


def relative_error(found, wanted):
    """Infinite if the shapes differ: matmuls store the transpose of a dequantized int8 weight."""
    return np.linalg.norm(found - wanted) / np.linalg.norm(wanted) if found.shape == wanted.shape else np.inf


@pytest.mark.parametrize("form", ["int8", "4bit", "int4:64", "int4:32:zero", "int8:32", "int8:64:zero"])
def test_decoded_values_approximate_the_checkpoint(form, onnx_folder, export):
    forms = ("--form", "matmul") if "4" in form or "32" in form else ()
    exact = dict(shards_of(export(TINYMOE, "--tokens", "1,16", *forms)))
    for name, path in shards_of(onnx_folder(form)):
        _, values = decode(onnx.load(path))
        plain = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(exact[name]).graph.initializer}
        for weight, found in values.items():
            error = min(relative_error(found, plain[weight]), relative_error(found, plain[weight].T))
            assert error < (0.13 if ".experts." in weight or "int4" in form else 0.02), (name, weight, error)


@pytest.mark.parametrize("form", COREML_FORMS)
def test_coremltools_decodes_equal_values(form, coreml_folder):
    coded = 0
    for name, path in shards_of(coreml_folder(form)):
        for op, ours, theirs in constexpr_values(path):
            assert ours.dtype == theirs.dtype == np.float16
            assert np.array_equal(ours, theirs), (name, op)
            coded += 1
    assert coded > 100 or form == "bank"


def data_bytes(folder, pattern):
    return {path.relative_to(folder).as_posix(): path.stat().st_size for path in sorted(folder.rglob(pattern))}


@pytest.mark.parametrize("form", ["int8", "int4-lut:g16"])
def test_functions_of_a_package_share_the_codes(form, export):
    options = ("--target", "ane", "--allow-over-budget", "--weights", form, "--widths", "functions", "--tokens")
    one, two = export(TINYMOE, *options, "1"), export(TINYMOE, *options, "1,16")
    single, double = data_bytes(one, "weight.bin"), data_bytes(two, "weight.bin")
    assert single.keys() == double.keys()
    for name, size in single.items():  # a width may have its own constants, each with a 64-byte header
        assert size <= double[name] <= size + 4096, name
    assert sum(double.values()) < 1.01 * sum(single.values())
    coded = 0
    for path in {path for _, path in shards_of(two)}:
        functions = list(constexpr_functions(path))
        assert len(functions) == 2
        (_, first), (_, second) = functions
        assert first.keys() == second.keys()
        for name in first:
            assert np.array_equal(first[name], second[name]), name
        coded += len(first)
    assert coded > 100


def test_widths_of_onnx_share_the_codes(export):
    options = ("--weights", "4bit", "--tokens")
    one, two = export(TINYMOE, *options, "1"), export(TINYMOE, *options, "1,16")
    assert data_bytes(one, "*.data") == data_bytes(two, "*.data")


def bit_patterns(arrays):
    """The bytes of all arrays as f16, regardless of their order."""
    for array in arrays:
        assert np.array_equal(np.float32(np.float16(array)), np.float32(array))
    return sorted(np.ascontiguousarray(array, np.float16).tobytes() for array in arrays)


def test_onnx_and_core_ml_share_codes(export, tmp_path):
    """int4 has blocks of 32 and scales of 8 significant bits, so f16 represents its values exactly."""
    target = json.loads((REPO / "backends/targets/ane.json").read_text())
    for entry in target["weights"]:
        if "int4:32" in entry["forms"]:
            entry["severity"] = "note"
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps(target | {"name": "gpu", "projection": "matmul"}))
    weights = ("--weights", "attn=int4,head=int4", "--form", "matmul")
    onnx_shards = shards_of(export(TINYMOE, *weights))
    coreml_shards = dict(shards_of(export(TINYMOE, "--target", str(file), "--allow-over-budget", *weights)))
    compared = 0
    for name, path in onnx_shards:
        _, values = decode(onnx.load(path))
        ours = [value.T for value in values.values()]
        theirs = [value for _, _, value in constexpr_values(coreml_shards[name])]
        assert bit_patterns(ours) == bit_patterns(theirs), name
        compared += len(ours)
    assert compared == 17  # four matrices of four layers, and the head
    scales = [numpy_helper.to_array(tensor) for _, path in onnx_shards for tensor in onnx.load(path).graph.initializer
              if tensor.name.endswith(".scales")]
    for scale in scales:
        assert not np.any(scale.view(np.uint32) & 0xFFFF)  # 8 significant bits


def test_copied_codes_equal_the_checkpoint_codes(export, moec):
    """deepseek_v3_d stores its experts as INT4 groups. MatMulNBits decodes to the same bits as numpy decodes from
    the checkpoint, and the export matches the golden of the decoded model."""
    checkpoint = REPO / "tests/golden/deepseek_v3_d"
    folder = export(checkpoint, "--weights", "copy")
    stored = {name.removesuffix("_packed") for name in read_tensors(checkpoint / "model.safetensors")
              if name.endswith("_packed")}
    tensors = read_checkpoint(checkpoint)
    wanted = {np.ascontiguousarray(tensors[name], np.float32).tobytes() for name in stored if name in tensors}
    found = set()
    for _, path in shards_of(folder):
        _, values = decode(onnx.load(path))
        found |= {np.ascontiguousarray(value.T, np.float32).tobytes() for value in values.values()}
    assert len(wanted) > 20 and found == wanted
    moec("check", folder)
    moec("validate", folder, "--golden", checkpoint)


@pytest.mark.parametrize("stored", ["Q4_0", "Q4_1", "Q5_0", "Q8_0"])
def test_copies_gguf_blocks(stored, export, moec, tmp_path):
    """MatMulNBits decodes to the gguf package's values, and onnxruntime matches the results of a float export."""
    [file] = write_gguf(TINYMOE, tmp_path / "stored.gguf", stored)
    copied, plain = export(file, "--weights", "copy"), export(file)
    blocks = {tensor.name: gguf.quants.dequantize(tensor.data, tensor.tensor_type)
              for tensor in gguf.GGUFReader(file).tensors if tensor.tensor_type.name == stored}
    wanted = np.sort(np.abs(blocks["blk.1.attn_output.weight"]).ravel())
    compared = 0
    for name, path in shards_of(copied):
        _, values = decode(onnx.load(path))
        compared += len(values)
        if name == "L01.attn":
            found = [np.sort(np.abs(value).ravel()) for value in values.values()]
            assert any(len(one) == len(wanted) and np.allclose(one, wanted, rtol=0, atol=1e-6) for one in found)
    assert compared > 10
    runs = [Runner(folder, threads=1).feed(list(b"def tokens")) for folder in (copied, plain)]
    assert np.abs(runs[0] - runs[1]).max() < 1e-4 * np.abs(runs[1]).max()
    moec("check", copied)


@pytest.mark.parametrize("stored", ["Q4_0", "Q5_1", "Q8_0", "F16", "F32"])
def test_place_counts_bytes_of_fallback_floats(stored, moec, tmp_path):
    """Half of tinymoe's rows do not fill whole blocks and stay floats, so the file counts as a float export."""
    [file] = write_gguf(TINYMOE, tmp_path / "stored.gguf", stored)
    node = json.loads(moec("place", file, "--nodes", "1", "--json"))["nodes"][0]["bytes"]
    size = sum(tensor.n_bytes for tensor in gguf.GGUFReader(file).tensors)
    assert 0.95 < node / size < 3, (node, size)


def test_rejects_copying_unevenly_spaced_codes(moec, tmp_path):
    [file] = write_gguf(TINYMOE, tmp_path / "stored.gguf", "Q5_1")
    with pytest.raises(AssertionError, match=r"weights.copy.*blk\.0.*cannot be copied"):
        moec("export", file, "--out", tmp_path / "out", "--weights", "copy")
