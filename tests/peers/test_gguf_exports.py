"""moec reads the GGUF files that gguf_models.py writes: their exports match the goldens, and their weights equal
those of an export of the checkpoint bit for bit.

test_gguf_goldens.py proves with llama.cpp that these files represent their checkpoints.
"""

import functools

import gguf
import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from gguf_cases import REPRESENTABLE, STORED, VARIANTS
from gguf_models import read_model, write_gguf, write_model

TARGET = ("--target", "onnx")


@pytest.fixture(scope="module")
def gguf_export(export, gguf_checkpoint, tmp_path_factory):
    """gguf_export(case, **how) → the export of the case's GGUF file, which write_gguf writes with the arguments
    `how`."""

    @functools.cache
    def make(case, **how):
        path = tmp_path_factory.mktemp("gguf") / "model.gguf"
        return export(write_gguf(gguf_checkpoint(case), path, **how)[0], *TARGET)

    return make


def stored_weights(path):
    """The weights in a shard's data file, by shape and bytes, regardless of their order."""
    model = onnx.load(path, load_external_data=False)
    outside = {tensor.name for tensor in model.graph.initializer if tensor.data_location == TensorProto.EXTERNAL}
    arrays = [numpy_helper.to_array(tensor) for tensor in onnx.load(path).graph.initializer if tensor.name in outside]
    return sorted((array.shape, str(array.dtype), array.tobytes()) for array in arrays)


MOST_DECAYS = 64  # numbers of a recurrent mixer, one per head


def assert_equal_weights(found, wanted, file):
    """GGUF stores the rate of a decay instead of its logarithm, so decays differ by its rounding."""
    assert len(found) == len(wanted), file
    for (shape, dtype, data), (wanted_shape, wanted_dtype, wanted_data) in zip(found, wanted):
        assert (shape, dtype) == (wanted_shape, wanted_dtype), file
        if data != wanted_data:
            assert dtype == "float32" and np.prod(shape) <= MOST_DECAYS, file
            np.testing.assert_allclose(*(np.frombuffer(each, np.float32) for each in (data, wanted_data)), atol=1e-6)


def assert_same_weights(folder, wanted):
    """Expects the same shards and tables in both exports. GGUF stores the rotary base in f32, so angles differ by
    its rounding."""
    files = {path.relative_to(wanted) for path in wanted.rglob("*.onnx")}
    assert {path.relative_to(folder) for path in folder.rglob("*.onnx")} == files
    counts = []
    for file in files:
        expected = stored_weights(wanted / file)
        assert_equal_weights(stored_weights(folder / file), expected, file)
        counts.append(len(expected))
    assert sum(counts) > 10
    assert (folder / "embed.bin").read_bytes() == (wanted / "embed.bin").read_bytes()
    tables = {path.name for path in wanted.glob("rope*.bin")}
    assert {path.name for path in folder.glob("rope*.bin")} == tables
    for table in tables:
        angles = (np.fromfile(out / table, np.float32) for out in (folder, wanted))
        np.testing.assert_allclose(*angles, atol=1e-4, rtol=0)


@pytest.mark.parametrize("case", REPRESENTABLE)
def test_export_matches_the_golden(case, gguf_export, golden, moec):
    folder = gguf_export(case)
    moec("check", folder)
    moec("validate", folder, "--golden", golden(case).folder)


@pytest.mark.parametrize("case", [*REPRESENTABLE, *VARIANTS])
def test_weights_equal_those_of_the_checkpoint(case, gguf_export, gguf_checkpoint, export):
    assert_same_weights(gguf_export(case), export(gguf_checkpoint(case), *TARGET))


@pytest.mark.parametrize("case", ["tinymoe", "deepseek_v3_a"])
def test_split_files_contain_the_same_weights(case, gguf_export):
    assert_same_weights(gguf_export(case, parts=3), gguf_export(case))


@pytest.mark.parametrize("case", ["glm4_moe_a", "deepseek_v3_a"])
def test_layers_after_the_decoder_are_omitted(case, gguf_export, gguf_checkpoint, export, tmp_path):
    model = read_model(gguf_checkpoint(case))
    layers = model.keys[f"{model.arch}.block_count"]
    model.keys |= {f"{model.arch}.block_count": layers + 1, f"{model.arch}.nextn_predict_layers": 1}
    model.tensors |= {name.replace("blk.0.", f"blk.{layers}."): values for name, values in model.tensors.items()}
    [file] = write_model(model, tmp_path / "more.gguf")
    assert_same_weights(export(file, *TARGET), gguf_export(case))


@pytest.mark.parametrize("stored", STORED)
def test_weights_equal_those_of_the_gguf_package(stored, gguf_export, gguf_checkpoint, export, tmp_path):
    [file] = write_gguf(gguf_checkpoint("tinymoe"), tmp_path / "stored.gguf", stored)
    model = read_model(gguf_checkpoint("tinymoe"))
    for tensor in gguf.GGUFReader(file).tensors:
        model.tensors[tensor.name] = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    [exact] = write_model(model, tmp_path / "exact.gguf")
    assert_same_weights(gguf_export("tinymoe", tensor_type=stored), export(exact, *TARGET))
