"""Goldens for the GGUF tests: goldens that llama.cpp can represent, and representable variants of others."""

import json
import re

import numpy as np

from gguf_variants import CHANGES
from goldens import CASES
from safetensors_files import read_checkpoint, write_tensors

NO_ARCH = "moec knows no architecture of llama.cpp for it"
NOT_REPRESENTABLE = {
    "deepseek_v2_a": "deepseek2: groups are ranked by the sum of their two best experts, not by the best",
    "deepseek_v32_a": f"deepseek_v32: {NO_ARCH}",
    "deepseek_v32_b": f"deepseek_v32: {NO_ARCH}",
    "deepseek_v3_b": "deepseek2: rotated pairs are consecutive: rope_interleave is true",
    "dots1_a": "dots1: there is no sliding window",
    "dots1_b": "dots1: each query head has its own key and value head",
    "ernie4_5_moe_a": "ernie4_5-moe: attn_output and feed-forward layers have no biases",
    "ernie4_5_moe_b": "ernie4_5-moe: all layers behind the first ones have experts",
    "ernie4_5_vl_moe_a": f"ernie4_5_vl_moe_text: {NO_ARCH}",
    "ernie4_5_vl_moe_b": f"ernie4_5_vl_moe_text: {NO_ARCH}",
    "gemma4_b": "gemma4: attention has no biases",
    "glm4_moe_lite_a": "deepseek2: dense layers come first",
    "glm4_moe_lite_b": "deepseek2: rotated pairs are consecutive: rope_interleave is true",
    "glm_moe_dsa_a": f"glm_moe_dsa: {NO_ARCH}",
    "glm_moe_dsa_b": f"glm_moe_dsa: {NO_ARCH}",
    "granitemoehybrid_b": "granitehybrid: maps of mixers have no biases",
    "exaone_moe_b": "exaone-moe: dense layers come first",
    "mellum_a": "mellum: all layers have experts",
    "mellum_b": "mellum: weights are normalised",
    "sarvam_mla_a": f"sarvam_mla: {NO_ARCH}",
    "sarvam_mla_b": f"sarvam_mla: {NO_ARCH}",
    "flex_olmo_a": f"flex_olmo: {NO_ARCH}",
    "flex_olmo_b": f"flex_olmo: {NO_ARCH}",
    "afmoe_a": "afmoe: every fourth layer sees all tokens and does not rotate",
    "afmoe_b": "afmoe: embeddings are scaled",
    "flint_a": f"flint: {NO_ARCH}",
    "flint_b": f"flint: {NO_ARCH}",
    "kolibri1_a": f"kolibri1: {NO_ARCH}",
    "kolibri1_b": f"kolibri1: {NO_ARCH}",
    "cohere2_moe_a": f"cohere2_moe: {NO_ARCH}",
    "cohere2_moe_b": f"cohere2_moe: {NO_ARCH}",
    "sarvam_moe_a": f"sarvam_moe: {NO_ARCH}",
    "sarvam_moe_b": f"sarvam_moe: {NO_ARCH}",
    "axk1_a": f"axk1: {NO_ARCH}",
    "axk1_b": f"axk1: {NO_ARCH}",
    "granitemoe_swa_a": "granite_swa: all rotating layers have one base",
    "mistral4_b": "mistral4: rotated pairs are consecutive: rope_interleave is true",
    "laguna_a": f"laguna: {NO_ARCH}",
    "laguna_b": f"laguna: {NO_ARCH}",
    "bailing_hybrid_a": f"bailing_hybrid: {NO_ARCH}",
    "bailing_hybrid_b": f"bailing_hybrid: {NO_ARCH}",
    "lara_mini_a": f"lara_mini: {NO_ARCH}",
    "lara_mini_b": f"lara_mini: {NO_ARCH}",
    "mimo_v2_flash_a": "mimo2: attention has no biases",
    "gpt_oss_b": "gpt-oss: attention has biases",
    "gpt_oss_d": "gpt-oss: the range of yarn has beta_fast 32, beta_slow 1 and whole dims",
    "hunyuan_v1_moe_b": "hunyuan-moe: there is no bias of attn_output",
    "hy_v3_a": "hy_v3: there is no bias of attn_output",
    "kimi_linear_a": "kimi-linear: delta nets have as many heads as attention",
    "kimi_linear_b": "kimi-linear: delta nets have as many heads as attention",
    "lfm2_moe_b": "lfm2moe: convolutions and their maps have no biases",
    "llama4_a": "llama4: attention_chunk_size is 8192",
    "llama_b": "llama: the activation is silu",
    "llama4_text_a": "llama4: attention_chunk_size is 8192",
    "llama4_text_b": "llama4: attention_chunk_size is 8192",
    "minimax_m3_a": f"minimax_m3_vl_text: {NO_ARCH}",
    "minimax_m3_b": f"minimax_m3_vl_text: {NO_ARCH}",
    "mistral_a": "llama: there is no sliding window",
    "mistral_b": "llama: the activation is silu",
    "mixtral_a": "llama: there is no sliding window",
    "nemotron_h_a": "nemotron_h_moe: no layer is a dense one",
    "nemotron_h_b": "nemotron_h_moe: no layer is a dense one",
    "nemotron_h_c": "nemotron_h_moe: no layer is a dense one",
    "olmoe_a": "olmoe: each query head has its own key and value head",
    "olmoe_b": "olmoe: weights are not normalised",
    "openai_privacy_filter_a": f"openai_privacy_filter: {NO_ARCH}",
    "openai_privacy_filter_b": f"openai_privacy_filter: {NO_ARCH}",
    "openai_privacy_filter_c": f"openai_privacy_filter: {NO_ARCH}",
    "phimoe_a": f"phimoe: {NO_ARCH}",
    "phimoe_b": f"phimoe: {NO_ARCH}",
    "qwen2_a": "qwen2: there is no sliding window",
    "qwen2_b": "qwen2: there is no sliding window",
    "qwen2_moe_a": "qwen2moe: there is no sliding window",
    "qwen2_moe_b": "qwen2moe: rotations are not scaled as llama3",
    "qwen3_5_moe_a": "qwen35moe: keys and values of delta nets have the same dims",
    "qwen3_5_moe_b": "qwen35moe: keys and values of delta nets have the same dims",
    "qwen3_a": "qwen3: there is no bias of attn_output",
    "qwen3_b": "qwen3: there is no sliding window",
    "qwen3_moe_b": "qwen3moe: all layers have experts",
    "qwen3_next_a": "qwen3next: keys and values of delta nets have the same dims",
    "qwen3_next_b": "qwen3next: keys and values of delta nets have the same dims",
    "qwen3_vl_moe_a": "qwen3vlmoe: all layers have experts",
    "qwen3_vl_moe_b": "qwen3vlmoe: there is no bias of attn_output",
    "tinytagger": f"openai_privacy_filter: {NO_ARCH}",
    "zaya_a": f"zaya: {NO_ARCH}",
    "zaya_b": f"zaya: {NO_ARCH}",
    "zaya_c": f"zaya: {NO_ARCH}",
}
REPRESENTABLE = [case for case in CASES if case not in NOT_REPRESENTABLE]
BIASES = r".*(proj|proj_with_mqa|lm_head)\.bias"
# Variants of cases that GGUF cannot represent: changed config values and removed tensors; gguf_variants.py changes
# other tensors.
VARIANTS = {
    "afmoe_a": ({"layer_types": ["sliding_attention"] * 3 + ["full_attention"], "global_attn_every_n_layers": 4}, ""),
    "dots1_b": ({"num_key_value_heads": 5}, ""),
    "exaone_moe_b": ({"mlp_layer_types": ["dense"] + ["sparse"] * 3}, ""),
    "glm4_moe_lite_a": ({"mlp_layer_types": ["dense", "sparse", "sparse"], "rms_norm_eps": 1e-6}, ""),
    "granitemoe_swa_a": ({"layer_rope_theta": [700.0, 0, 700.0, 700.0], "rope_theta": 700.0}, ""),
    "hy_v3_a": ({"attention_bias": False, "mlp_bias": False}, BIASES),
    "kimi_linear_a": ({"num_attention_heads": 3, "num_key_value_heads": 3, "rms_norm_eps": 1e-6}, ""),
    "mellum_a": ({"mlp_layer_types": ["sparse"] * 3, "rope_theta": 2000.0}, ""),
    "nemotron_h_a": ({"layers_block_type": ["linear_attention", "moe", "full_attention", "linear_attention"]}, ""),
    "nemotron_h_c": ({"layers_block_type": ["linear_attention", "moe", "moe", "full_attention"], "mlp_bias": False},
                     r".*(up|down|latent)_proj\.bias"),
    "qwen3_5_moe_a": ({"linear_value_head_dim": 10}, ""),
    "qwen3_next_a": ({"linear_key_head_dim": 10}, ""),
    "qwen3_vl_moe_a": ({"mlp_only_layers": []}, ""),
    "deepseek_v2_a": ({"topk_method": "greedy", "n_group": None, "topk_group": None, "attention_bias": False,
                       "mlp_bias": False, "mscale_all_dim": 0.707}, BIASES),
    "deepseek_v3_b": ({"rope_interleave": True, "attention_bias": False}, BIASES),
    "ernie4_5_moe_a": ({"use_bias": False}, BIASES),
    "hunyuan_v1_moe_b": ({"attention_bias": False}, BIASES),
    "llama4_text_a": ({"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1,
                       "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0],
                       "layer_types": ["chunked_attention"] * 3 + ["full_attention"]}, ""),
    "llama_b": ({"hidden_act": "silu"}, ""),
    "mistral_a": ({"sliding_window": None}, ""),
    "mistral_b": ({"hidden_act": "silu"}, ""),
    "mixtral_a": ({"sliding_window": None}, ""),
    "olmoe_b": ({"norm_topk_prob": False, "attention_bias": False}, BIASES),
    "qwen2_b": ({"use_sliding_window": False, "layer_types": ["full_attention"] * 3}, ""),
    "qwen2_moe_a": ({"use_sliding_window": False, "layer_types": ["full_attention"] * 2}, ""),
    "qwen3_a": ({"attention_bias": False}, BIASES),
    "qwen3_b": ({"use_sliding_window": False, "layer_types": ["full_attention"] * 3}, ""),
}
# Types that the gguf package can store matrices in.
STORED = ("F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1")


def all_tokens(golden):
    """Returns the tokens of the prefill and of the decode steps."""
    return [token for _, _, tokens in golden.steps for token in tokens]


def changed(config, changes):
    """Returns the config with changed values for these keys, at any depth."""
    out = {key: changes.get(key, changed(value, changes) if isinstance(value, dict) else value)
           for key, value in config.items()}
    return out | {"dtype": "float32"} if "model_type" in out else out


def write_variant(case, folder, checkpoint):
    """Writes the variant of a case's checkpoint in f32 into a new folder."""
    changes, without = VARIANTS[case]
    config = json.loads((checkpoint / "config.json").read_text())
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(changed(config, changes)))
    kept = {name: np.float32(values) for name, values in read_checkpoint(checkpoint).items()
            if not re.fullmatch(without, name)}
    write_tensors(folder / "model.safetensors", CHANGES.get(case, lambda tensors: tensors)(kept))
    return folder
