"""Unmodified llama.cpp computes the goldens from the GGUF files that gguf_models.py writes.

This proves the Python writer, and with it the table of keys and tensors in gguf_families.py, which is the reference
for moec's own reader and writer of GGUF. If llama.cpp cannot represent a golden, a variant of its checkpoint
without the unsupported features is compared with moec's ONNX export instead; some families have no other proof.
"""

import json

import gguf
import numpy as np
import pytest

import llama_cpp
from comparison import compare
from gguf_cases import NOT_REPRESENTABLE, REPRESENTABLE, STORED, VARIANTS, all_tokens, changed
from gguf_families import FAMILIES, NotRepresentable, keys_of
from gguf_models import read_model, resolved, write_gguf, write_model
from goldens import CASES
from run_with_onnxruntime import Runner

MOST = 1e-5  # difference of logits, relative to the largest logit
# llama.cpp looks GELU up in a table of f16 numbers.
MOST_WITH_TABLE = {"gemma4_a": 2e-3}


def agree(got, wanted, figures, case=None):
    """Asserts that logits match up to rounding, and that the most likely token of each row is the same."""
    figures.add(compare(got, wanted))
    assert np.abs(got - wanted).max() <= MOST_WITH_TABLE.get(case, MOST) * np.abs(wanted).max()
    assert (got.argmax(1) == wanted.argmax(1)).all()


def reason(folder):
    with pytest.raises(NotRepresentable) as refused:
        read_model(folder)
    return str(refused.value)


# Limits that otherwise representable cases may not exceed. NOT_REPRESENTABLE contains the other limits.
LIMITS = [
    ("deepseek_v3_a", {"mscale": 0.7}, "deepseek2: mscale and mscale_all_dim are one number"),
    ("deepseek_v3_a", {"mscale": None, "mscale_all_dim": None}, "deepseek2: mscale_all_dim of yarn is given"),
    ("deepseek_v3_a", {"rms_norm_eps": 1e-5}, "deepseek2: the latent norms have the eps of the others"),
    ("deepseek_v3_a", {"attention_bias": True}, "deepseek2: there are no biases"),
    ("deepseek_v3_a", {"num_hidden_layers": 27}, "deepseek2: 26 and 27 layers have no query LoRA"),
    ("qwen2_moe_a", {"norm_topk_prob": True}, "qwen2moe: weights are not normalised"),
    ("qwen2_moe_a", {"num_attention_heads": 5}, "qwen2moe: heads are as wide together as the hidden state"),
    ("qwen3_moe_a", {"norm_topk_prob": False}, "qwen3moe: weights are normalised"),
    ("qwen3_moe_a", {"attention_bias": True}, "qwen3moe: there is no bias of attn_output"),
    ("qwen3_moe_a", {"use_sliding_window": True}, "qwen3moe: there is no sliding window"),
    ("qwen3_moe_a", {"mlp_only_layers": [0]}, "qwen3moe: all layers have experts"),
    ("qwen3_moe_a", {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "original_max_position_embeddings": 32,
                                         "attention_factor": 1.5}},
     "qwen3moe: the attention factor of yarn follows from its factor"),
    ("olmoe_b", {"clip_qkv": 2.0}, "olmoe: there is no clip_qkv"),
    ("olmoe_b", {"attention_bias": True}, "olmoe: there is no bias of attn_output"),
    ("gpt_oss_a", {"swiglu_limit": 5.0}, "gpt-oss: swiglu_alpha is 1.702 and swiglu_limit is 7"),
    ("gpt_oss_a", {"layer_types": ["full_attention"] * 3}, "gpt-oss: even layers slide, odd layers do not"),
    ("ernie4_5_moe_a", {"moe_layer_end_index": 1}, "ernie4_5-moe: the last layer has experts"),
    ("llama4_text_a", {"no_rope_layers": [1] * 4}, "llama4: every fourth layer is not rotated"),
    ("llama4_text_a", {"attn_scale": 0.3}, "llama4: floor_scale is 8192 and attn_scale is 0.1"),
    ("llama4_text_a", {"attn_temperature_tuning": False}, "llama4: attn_temperature_tuning is true"),
    ("llama4_text_a", {"use_qk_norm": False}, "llama4: use_qk_norm is true but with 128 experts"),
    ("llama4_text_a", {"num_local_experts": 128}, "llama4: use_qk_norm is true but with 128 experts"),
    ("llama4_text_a", {"moe_layers": [0, 3]}, "llama4: layers with experts are evenly spread"),
    ("llama4_text_a", {"attention_bias": True}, "llama4: there is no bias of attn_output"),
    ("hunyuan_v1_moe_a", {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4}},
     "hunyuan-moe: rotations do not depend on the length of the text"),
]


@pytest.mark.parametrize("case", REPRESENTABLE)
def test_llama_cpp_matches_the_golden(case, golden, tmp_path, worst):
    """Covers the prefill and the following decode steps in one pass."""
    want = golden(case)
    [file] = write_gguf(want.checkpoint, tmp_path / "model.gguf")
    wanted = np.concatenate([want.rows(step, "logits") for step, _, _ in want.steps])
    agree(llama_cpp.logits(file, all_tokens(want)), wanted, worst["llama.cpp, goldens"], case)


def test_exclusions_have_a_reason(golden):
    assert NOT_REPRESENTABLE.keys() <= set(CASES)
    assert {case: reason(golden(case).checkpoint) for case in NOT_REPRESENTABLE} == NOT_REPRESENTABLE


@pytest.mark.parametrize("case, changes, limit", LIMITS)
def test_each_limit_rejects_its_config(case, changes, limit, gguf_checkpoint):
    """The config without the change is representable."""
    config = json.loads((gguf_checkpoint(case) / "config.json").read_text())
    assert keys_of(resolved(config))
    with pytest.raises(NotRepresentable) as refused:
        keys_of(resolved(changed(config, changes)))
    assert str(refused.value) == limit


def test_each_family_is_compared(golden):
    compared = {golden(case).info["family"] for case in [*REPRESENTABLE, *VARIANTS]}
    assert compared == set(FAMILIES) and len(compared) == 37


@pytest.mark.parametrize("case", VARIANTS)
def test_llama_cpp_and_moec_match(case, golden, gguf_checkpoint, export, tmp_path, worst):
    folder = gguf_checkpoint(case)
    tokens = all_tokens(golden(case))
    [file] = write_gguf(folder, tmp_path / "model.gguf")
    wanted = Runner(export(folder, "--tokens", len(tokens)), threads=1).feed(tokens)
    agree(llama_cpp.logits(file, tokens), wanted, worst["llama.cpp, moec"])


@pytest.mark.parametrize("stored", STORED)
def test_matrices_have_the_requested_type(stored, golden, tmp_path):
    """Matrices whose rows consist of whole blocks have the type. The file loads, and a Model of the decoded values
    computes the same results up to llama.cpp's rounding of activations."""
    want = golden("tinymoe")
    model = read_model(want.checkpoint)
    [file] = write_model(model, tmp_path / "stored.gguf", stored)
    kinds = {tensor.name: tensor for tensor in gguf.GGUFReader(file).tensors}
    assert kinds["blk.0.ffn_gate_exps.weight"].tensor_type.name == stored
    assert kinds["blk.0.ffn_down_exps.weight"].tensor_type.name == (stored if "F16" in stored else "F32")
    assert {kinds[name].tensor_type.name for name in ("blk.0.attn_norm.weight", "blk.0.ffn_gate_inp.weight")} == {"F32"}
    for name, tensor in kinds.items():
        model.tensors[name] = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    [exact] = write_model(model, tmp_path / "exact.gguf")
    got, wanted = (llama_cpp.logits(path, want.prompt) for path in (file, exact))
    assert compare(got, wanted).relative_l2 < 0.2
    assert np.isfinite(got).all()


def test_split_files_contain_the_same_model(golden, tmp_path):
    want = golden("deepseek_v3_a")
    [whole] = write_gguf(want.checkpoint, tmp_path / "whole.gguf")
    parts = write_gguf(want.checkpoint, tmp_path / "parts.gguf", parts=3)
    assert [part.name for part in parts] == [f"parts-0000{i}-of-00003.gguf" for i in (1, 2, 3)]
    readers = [gguf.GGUFReader(part) for part in parts]
    assert [reader.fields["split.no"].contents() for reader in readers] == [0, 1, 2]
    assert readers[0].fields["split.tensors.count"].contents() == sum(len(reader.tensors) for reader in readers)
    assert "deepseek2.block_count" not in readers[1].fields
    assert np.array_equal(*(llama_cpp.logits(file, all_tokens(want)) for file in (whole, parts[0])))


def test_reports_an_aborting_file(golden, tmp_path):
    """llama.cpp aborts without an expert count; the calling test must survive."""
    model = read_model(golden("tinymoe").checkpoint)
    del model.keys["qwen3moe.expert_count"]
    [file] = write_model(model, tmp_path / "bad.gguf")
    with pytest.raises(llama_cpp.LlamaError, match="expert"):
        llama_cpp.logits(file, [1, 2, 3])
