"""The --memory limit applies to the whole process: it includes the index and the plan, and freed memory is returned
to the system. The peak is the system's own figure (VmHWM), which does not depend on the machine's speed."""

import json
import subprocess

import pytest

from conftest import find_binary
from exports import codes_of

MIB = 1 << 20


def tensors_of(layers, experts, hidden, inner, heads=8):
    """Maps names to shapes for a Mixtral checkpoint with two key and value heads."""
    kept = 2 * hidden // heads
    yield from {"model.embed_tokens.weight": [64, hidden], "lm_head.weight": [64, hidden],
                "model.norm.weight": [hidden]}.items()
    for layer in range(layers):
        shapes = {"input_layernorm": [hidden], "post_attention_layernorm": [hidden],
                  "self_attn.q_proj": [hidden, hidden], "self_attn.k_proj": [kept, hidden],
                  "self_attn.v_proj": [kept, hidden], "self_attn.o_proj": [hidden, hidden],
                  "block_sparse_moe.gate": [experts, hidden]}
        for expert in range(experts):
            for name, shape in (("w1", [inner, hidden]), ("w2", [hidden, inner]), ("w3", [inner, hidden])):
                shapes[f"block_sparse_moe.experts.{expert}.{name}"] = shape
        for name, shape in shapes.items():
            yield f"model.layers.{layer}.{name}.weight", shape


def write_sparse(folder, layers, experts, hidden, inner):
    """Writes a sparse checkpoint of zeros, which uses no disk space."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "hidden_act": "silu", "hidden_size": hidden,
        "intermediate_size": inner, "max_position_embeddings": 64, "num_attention_heads": 8,
        "num_key_value_heads": 2, "num_experts_per_tok": 2, "num_hidden_layers": layers,
        "num_local_experts": experts, "rms_norm_eps": 1e-5, "sliding_window": None, "tie_word_embeddings": False,
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}, "vocab_size": 64, "dtype": "bfloat16"}))
    header, at = {}, 0
    for name, shape in tensors_of(layers, experts, hidden, inner):
        end = at + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    return folder


def export(checkpoint, out, memory, *more, **how):
    command = [str(find_binary()), "export", str(checkpoint), "--out", str(out), "--json", "--memory", str(memory), *more]
    return subprocess.run(command, capture_output=True, text=True, **how)


@pytest.fixture(scope="session")
def wide(tmp_path_factory):
    """A few layers of 256 experts, with some megabytes per layer."""
    return write_sparse(tmp_path_factory.mktemp("wide") / "checkpoint", 24, 256, 512, 256)


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """A checkpoint of 99,708 tensors of a few bytes."""
    return write_sparse(tmp_path_factory.mktemp("many") / "checkpoint", 255, 128, 16, 8)


@pytest.mark.parametrize("source,memory,more", [
    ("wide", 128, ("--layers", "2")),
    ("wide", 128, ("--layers", "4", "--target", "ane", "--max-shard-mb", "10")),
    ("wide", 128, ("--layers", "4", "--target", "onnx,ane", "--dtype", "f16", "--max-shard-mb", "10")),
    ("many", 144, ("--layers", "128")),
    ("many", 256, ("--layers", "60", "--target", "ane")),
], ids=["wide-onnx", "wide-ane", "wide-both", "many-onnx", "many-ane"])
def test_memory_stays_within_the_budget(source, memory, more, failing_disk, request, tmp_path):
    peak = tmp_path / "peak"
    done = export(request.getfixturevalue(source), tmp_path / "out", memory, *more, env=failing_disk(PEAK=peak))
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(peak.read_text()) * 1024 <= memory * MIB


def test_large_plan_is_rejected_before_writing(many, tmp_path):
    done = export(many, tmp_path / "out", 64)
    assert done.returncode == 2 and codes_of(done) == ["weights.over_budget"], done.stdout
    assert not (tmp_path / "out").exists()
