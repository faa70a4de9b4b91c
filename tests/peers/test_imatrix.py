"""The `gguf` package reads the importance matrix that `moec analyze` writes and finds the counts of the analysis."""

import json

import gguf
import numpy as np
import pytest

from goldens import REPO

TINYMOE = REPO / "models/tinymoe"
PROMPTS = [{"category": "code", "text": "def first(items):\n    return items[0]\n"},
           {"category": "prose", "text": "The rain had stopped before they came to the bridge."}]
MATRICES = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
HIDDEN, INNER, EXPERTS, LAYERS = 128, 80, 16, 4


@pytest.fixture(scope="module")
def analysed(moec, tmp_path_factory):
    folder = tmp_path_factory.mktemp("analysed")
    suite = folder / "suite.jsonl"
    suite.write_text("".join(json.dumps(prompt) + "\n" for prompt in PROMPTS))
    moec("analyze", TINYMOE, "--prompts", suite, "--imatrix", "--out", folder / "out", "-q")
    return folder / "out"


@pytest.fixture(scope="module")
def tensors(analysed):
    """Maps names to values with the outermost axis first."""
    return {tensor.name: tensor.data for tensor in gguf.GGUFReader(analysed / "imatrix.gguf").tensors}


def test_keys_match_llama_imatrix(analysed):
    fields = gguf.GGUFReader(analysed / "imatrix.gguf").fields
    assert fields["general.type"].contents() == "imatrix"
    assert len(fields["imatrix.datasets"].contents()) == 1
    assert fields["imatrix.chunk_size"].contents() == max(len(prompt["text"]) for prompt in PROMPTS)
    assert fields["imatrix.chunk_count"].contents() == len(PROMPTS), "each prompt is a window"


def test_each_matrix_of_experts_has_counts_and_sums(tensors):
    assert set(tensors) == {f"blk.{layer}.{matrix}.weight.{kind}" for layer in range(LAYERS) for matrix in MATRICES
                            for kind in ("counts", "in_sum2")}
    for name, values in tensors.items():
        assert values.dtype == np.float32
        columns = 1 if name.endswith("counts") else INNER if "down" in name else HIDDEN
        assert values.shape == (EXPERTS, columns), name


def test_counts_equal_the_profiles_selections(analysed, tensors):
    profile = json.loads((analysed / "profile.json").read_text())
    tokens = sum(len(prompt["text"].encode()) for prompt in PROMPTS)
    for layer in profile["layers"]:
        assert sum(layer["selections"]) == tokens * profile["top_k"]
        for matrix in MATRICES:
            counts = tensors[f"blk.{layer['layer']}.{matrix}.weight.counts"]
            assert counts.ravel().tolist() == layer["selections"]


def test_sums_match_the_matrix_inputs(tensors):
    """Gate and up have equal inputs; sums are positive for exactly the selected experts."""
    for layer in range(LAYERS):
        gate, up, down = (tensors[f"blk.{layer}.{matrix}.weight.in_sum2"] for matrix in MATRICES)
        chosen = tensors[f"blk.{layer}.ffn_gate_exps.weight.counts"].ravel() > 0
        assert (gate == up).all()
        assert ((gate.sum(1) > 0) == chosen).all() and ((down.sum(1) > 0) == chosen).all()
        assert np.isfinite(gate).all() and np.isfinite(down).all()


def test_counts_round_trip(moec, analysed, tmp_path):
    moec("analyze", TINYMOE, "--from-imatrix", analysed / "imatrix.gguf", "--out", tmp_path / "again", "-q")
    first, again = (json.loads((folder / "profile.json").read_text()) for folder in (analysed, tmp_path / "again"))
    assert [layer["selections"] for layer in again["layers"]] == [layer["selections"] for layer in first["layers"]]


def test_reads_counts_written_by_the_package(moec, tmp_path):
    """A small llama-imatrix file written by the package instead of moec."""
    generator, path = np.random.default_rng(3), tmp_path / "imatrix.gguf"
    counts = generator.integers(1, 50, (LAYERS, EXPERTS))
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["text"])
    writer.add_uint32("imatrix.chunk_count", 4)
    writer.add_uint32("imatrix.chunk_size", 512)
    for layer in range(LAYERS):
        for matrix, columns in zip(MATRICES, (HIDDEN, HIDDEN, INNER)):
            name = f"blk.{layer}.{matrix}.weight"
            writer.add_tensor(f"{name}.counts", counts[layer].astype(np.float32).reshape(EXPERTS, 1))
            writer.add_tensor(f"{name}.in_sum2", generator.random((EXPERTS, columns), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    moec("analyze", TINYMOE, "--from-imatrix", path, "--out", tmp_path / "out", "-q")
    profile = json.loads((tmp_path / "out/profile.json").read_text())
    assert [layer["selections"] for layer in profile["layers"]] == counts.tolist()
