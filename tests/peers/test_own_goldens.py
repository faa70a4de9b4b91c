"""`make_golden.py --checkpoint` makes the goldens of any checkpoint, layer by layer. Skipped without PyTorch:

    pip install torch==2.13.0      # first: this pin gives a CPU build
    pip install transformers==5.23.0 safetensors xxhash accelerate compressed-tensors
    pytest tests/peers/test_own_goldens.py

A run with the weights of one layer at a time must produce the same bits as a run with the whole model, and the values
of the committed goldens. With goldens of other checkpoints, correct exports must pass and incorrect exports must fail.
"""

import copy
import json
import subprocess
import sys

import numpy as np
import pytest

from conftest import find_binary
from goldens import CASES, Golden, compare_tensors
from safetensors_files import read_tensors

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
safetensors_torch = pytest.importorskip("safetensors.torch")

import make_golden  # noqa: E402

make_golden.quieten()

from golden import cases, streamed  # noqa: E402
from golden.checkpoint import write_checkpoint  # noqa: E402
from golden.own import make_own  # noqa: E402
from golden.request import Refused, request_of  # noqa: E402
from golden.state_space_cases import STATE_SPACE  # noqa: E402

TARGETS = {"onnx": "f32", "ane": "f16"}  # target → precision in which its files are validated
EXPORTED = {  # checkpoints whose sizes no committed case has
    "qwen3_moe": dict(family="qwen3_moe", disk=cases.BF16, config=cases.Qwen3MoeConfig, args=dict(
        hidden_size=64, intermediate_size=56, moe_intermediate_size=32, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, head_dim=24, num_experts=12, num_experts_per_tok=4, norm_topk_prob=True,
        attention_bias=False, vocab_size=120, tie_word_embeddings=False, max_position_embeddings=64,
        rope_parameters=cases.rope(1e6))),
    "mixtral": dict(family="mixtral", disk=cases.F16, config=cases.MixtralConfig, args=dict(
        hidden_size=72, intermediate_size=52, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=4,
        num_local_experts=8, num_experts_per_tok=2, vocab_size=111, tie_word_embeddings=True, sliding_window=None,
        max_position_embeddings=64, rope_parameters=cases.rope())),
}
PROMPT = [7, 3, 99, 12, 54, 23, 81, 5, 66]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Uses one thread, so that sums have a fixed order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def make(checkpoint, out, prompt, *options, whole=False):
    """Runs make_golden.py in this process and returns the tensors of the golden."""
    tokens = ",".join(map(str, prompt))
    flags = make_golden.flags_of(["--checkpoint", str(checkpoint), "--prompt-tokens", tokens, "--out", str(out),
                                  *map(str, options)])
    make_own(request_of(flags), whole)
    return read_tensors(out / "golden.safetensors")


@pytest.mark.parametrize("case", CASES)
def test_layer_by_layer_equals_the_whole_model(case, tmp_path):
    golden = Golden(case)
    (_, _, prompt), *decode = golden.steps
    options = ["--decode-tokens", ",".join(str(tokens[0]) for _, _, tokens in decode)] if decode else []
    streamed_values = make(golden.checkpoint, tmp_path / "streamed", prompt, *options)
    whole = make(golden.checkpoint, tmp_path / "whole", prompt, *options, whole=True)
    assert streamed_values.keys() == whole.keys()
    for name, values in whole.items():
        np.testing.assert_array_equal(streamed_values[name], values, err_msg=name)
    compare_tensors(streamed_values, golden.tensors, "golden.safetensors")
    made = json.loads((tmp_path / "streamed/golden.json").read_text())
    assert all(made[key] == golden.info[key] for key in ("steps", "moe_layers", "config_digest", "weights_sha256"))


@pytest.mark.parametrize("case, stored", [("llama_c", "F32"), ("llama_c", "Q4_1"), ("qwen2_c", "Q8_0")])
def test_makes_goldens_of_gguf_files(case, stored, tmp_path, moec):
    pytest.importorskip("gguf")
    from gguf_models import write_gguf

    [file] = write_gguf(Golden(case).checkpoint, tmp_path / "model.gguf", stored)
    make(tmp_path, tmp_path / "golden", [7, 3, 81, 12, 54], "--decode", 2)  # the folder contains only this GGUF file
    moec("export", file, "--out", tmp_path / "export", "--quiet")
    assert "PASSED" in moec("validate", tmp_path / "export", "--golden", tmp_path / "golden")


def test_rejects_gguf_files_misread_by_transformers(tmp_path):
    """For qwen3_moe, transformers uses the class's expert width instead of the file's."""
    pytest.importorskip("gguf")
    from gguf_models import write_gguf

    [file] = write_gguf(Golden("qwen3_moe_a").checkpoint, tmp_path / "model.gguf")
    with pytest.raises(Refused, match="transformers"):
        make(file, tmp_path / "golden", PROMPT)


@pytest.mark.parametrize("whole", [False, True])
def test_accepts_recurrent_layers_without_attention(whole, tmp_path):
    spec = copy.deepcopy(STATE_SPACE["granitemoehybrid_a"])
    spec["args"]["layer_types"] = ["linear_attention"] * len(spec["args"]["layer_types"])
    write_checkpoint("recurrent", spec, tmp_path)
    tensors = make(tmp_path, tmp_path / "golden", [7, 3, 81, 12, 54], "--decode", 2, whole=whole)
    assert {f"{step}.logits" for step in ("prefill", "decode0", "decode1")} <= tensors.keys()


def test_only_one_part_is_in_memory(tmp_path, monkeypatch):
    checkpoint, held, counts = Golden("qwen3_moe_a").checkpoint, set(), []
    load, drop = streamed.Parts.load, streamed.Parts.drop

    def watched_load(parts, part, only=""):
        held.add(part)
        counts.append(len(held))
        load(parts, part, only)

    def watched_drop(parts, part):
        held.discard(part)
        drop(parts, part)

    monkeypatch.setattr(streamed.Parts, "load", watched_load)
    monkeypatch.setattr(streamed.Parts, "drop", watched_drop)
    make(checkpoint, tmp_path / "golden", PROMPT, "--decode", 1)
    assert counts == [1] * 3 * 4  # three passes over the embedding, two layers, and the head
    assert not held


def test_rejects_a_checkpoint_without_a_tensor(tmp_path):
    write_checkpoint("lacking", EXPORTED["mixtral"], tmp_path)
    change(tmp_path, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.weight"))
    with pytest.raises(Refused, match="no tensor for model.layers.1.self_attn.k_proj.weight"):
        make(tmp_path, tmp_path / "golden", PROMPT)
    assert not (tmp_path / "golden").exists()


def test_greedy_steps_use_the_chosen_token(tmp_path):
    write_checkpoint("greedy", EXPORTED["mixtral"], tmp_path)
    tensors = make(tmp_path, tmp_path / "golden", PROMPT, "--decode", 2)
    greedy = json.loads((tmp_path / "golden/golden.json").read_text())["greedy"]
    assert greedy["prompt"] == PROMPT
    chosen = [int(tensors[step + ".logits"][-1].argmax()) for step in ("prefill", "decode0", "decode1")]
    assert greedy["tokens"] == chosen
    assert [tensors[step + ".tokens"].tolist() for step in ("decode0", "decode1")] == [[chosen[0]], [chosen[1]]]


# ------------------------------------------------- goldens of own exports ----

@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """checkpoints[name] → a folder with a random checkpoint."""
    folders = {name: tmp_path_factory.mktemp(name) for name in EXPORTED}
    for name, folder in folders.items():
        write_checkpoint(f"own_{name}", EXPORTED[name], folder)
    return folders


def change(folder, edit):
    """Edits the tensors of a checkpoint in place."""
    path = folder / "model.safetensors"
    tensors = safetensors_torch.load_file(path)
    edit(tensors)
    safetensors_torch.save_file(tensors, path, metadata={"format": "pt"})


def validate(out, golden, precision):
    command = [find_binary(), "validate", out, "--golden", golden, "--precision", precision, "--json"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXPORTED)
def test_export_passes_its_checkpoints_golden(name, target, checkpoints, export, tmp_path):
    make(checkpoints[name], tmp_path / "golden", PROMPT)
    out = export(checkpoints[name], "--target", target)
    assert validate(out, tmp_path / "golden", TARGETS[target])["ok"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXPORTED)
def test_golden_of_a_changed_weight_fails(name, target, checkpoints, export, tmp_path):
    out = export(checkpoints[name], "--target", target)
    changed = tmp_path / "changed"
    changed.mkdir()
    for path in checkpoints[name].iterdir():
        (changed / path.name).write_bytes(path.read_bytes())
    weight = "model.layers.1.self_attn.o_proj.weight"
    change(changed, lambda tensors: tensors[weight][0, 0].add_(4))
    make(changed, tmp_path / "golden", PROMPT)
    report = validate(out, tmp_path / "golden", TARGETS[target])
    assert not report["ok"]
    assert [shard["shard"] for shard in report["shards"] if not shard["passed"]] == ["L01.attn"]


def test_command_line_writes_two_files(checkpoints, tmp_path):
    script = make_golden.REPO / "scripts/make_golden.py"
    command = [sys.executable, script, "--checkpoint", checkpoints["mixtral"], "--prompt-tokens", "1,2,3", "--out",
               tmp_path / "golden"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=True)
    assert sorted(path.name for path in (tmp_path / "golden").iterdir()) == ["golden.json", "golden.safetensors"]
    assert "pass 6 of 6, comparison" in done.stderr
