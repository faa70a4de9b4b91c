"""Goldens for the GGUF tests: goldens that llama.cpp can represent, and representable variants of others."""

import json
import re

import numpy as np

from goldens import CASES
from safetensors_files import read_checkpoint, write_tensors

NO_ARCH = "moec knows no architecture of llama.cpp for it"
NOT_REPRESENTABLE = {
    "deepseek_v2_a": "deepseek2: groups are ranked by the sum of their two best experts, not by the best",
    "deepseek_v32_a": f"deepseek_v32: {NO_ARCH}",
    "deepseek_v32_b": f"deepseek_v32: {NO_ARCH}",
    "deepseek_v3_b": "deepseek2: rotated pairs are consecutive: rope_interleave is true",
    "dots1_a": f"dots1: {NO_ARCH}",
    "dots1_b": f"dots1: {NO_ARCH}",
    "ernie4_5_moe_a": "ernie4_5-moe: attn_output and feed-forward layers have no biases",
    "ernie4_5_moe_b": "ernie4_5-moe: all layers behind the first ones have experts",
    "ernie4_5_vl_moe_a": f"ernie4_5_vl_moe: {NO_ARCH}",
    "ernie4_5_vl_moe_b": f"ernie4_5_vl_moe: {NO_ARCH}",
    "gemma4_a": f"gemma4: {NO_ARCH}",
    "gemma4_b": f"gemma4_text: {NO_ARCH}",
    "glm4_moe_lite_a": f"glm4_moe_lite: {NO_ARCH}",
    "glm4_moe_lite_b": f"glm4_moe_lite: {NO_ARCH}",
    "glm4v_moe_a": f"glm4v_moe: {NO_ARCH}",
    "glm4v_moe_b": f"glm4v_moe: {NO_ARCH}",
    "glm_moe_dsa_a": f"glm_moe_dsa: {NO_ARCH}",
    "glm_moe_dsa_b": f"glm_moe_dsa: {NO_ARCH}",
    "granitemoehybrid_a": f"granitemoehybrid: {NO_ARCH}",
    "granitemoehybrid_b": f"granitemoehybrid: {NO_ARCH}",
    "granitemoehybrid_c": f"granitemoehybrid: {NO_ARCH}",
    "exaone_moe_a": f"exaone_moe: {NO_ARCH}",
    "exaone_moe_b": f"exaone_moe: {NO_ARCH}",
    "mellum_a": f"mellum: {NO_ARCH}",
    "mellum_b": f"mellum: {NO_ARCH}",
    "sarvam_mla_a": f"sarvam_mla: {NO_ARCH}",
    "sarvam_mla_b": f"sarvam_mla: {NO_ARCH}",
    "flex_olmo_a": f"flex_olmo: {NO_ARCH}",
    "flex_olmo_b": f"flex_olmo: {NO_ARCH}",
    "afmoe_a": f"afmoe: {NO_ARCH}",
    "afmoe_b": f"afmoe: {NO_ARCH}",
    "flint_a": f"flint: {NO_ARCH}",
    "flint_b": f"flint: {NO_ARCH}",
    "kolibri1_a": f"kolibri1: {NO_ARCH}",
    "kolibri1_b": f"kolibri1: {NO_ARCH}",
    "sarvam_moe_a": f"sarvam_moe: {NO_ARCH}",
    "sarvam_moe_b": f"sarvam_moe: {NO_ARCH}",
    "axk1_a": f"axk1: {NO_ARCH}",
    "axk1_b": f"axk1: {NO_ARCH}",
    "granitemoe_swa_a": f"granitemoe_swa: {NO_ARCH}",
    "granitemoe_swa_b": f"granitemoe_swa: {NO_ARCH}",
    "mistral4_a": f"mistral4: {NO_ARCH}",
    "mistral4_b": f"mistral4: {NO_ARCH}",
    "laguna_a": f"laguna: {NO_ARCH}",
    "laguna_b": f"laguna: {NO_ARCH}",
    "bailing_hybrid_a": f"bailing_hybrid: {NO_ARCH}",
    "bailing_hybrid_b": f"bailing_hybrid: {NO_ARCH}",
    "lara_mini_a": f"lara_mini: {NO_ARCH}",
    "lara_mini_b": f"lara_mini: {NO_ARCH}",
    "mimo_v2_flash_a": f"mimo_v2_flash: {NO_ARCH}",
    "mimo_v2_flash_b": f"mimo_v2_flash: {NO_ARCH}",
    "gpt_oss_b": "gpt-oss: attention has biases",
    "gpt_oss_d": "gpt-oss: the range of yarn has beta_fast 32, beta_slow 1 and whole dims",
    "hunyuan_v1_moe_b": "hunyuan-moe: there is no bias of attn_output",
    "hy_v3_a": f"hy_v3: {NO_ARCH}",
    "hy_v3_b": f"hy_v3: {NO_ARCH}",
    "kimi_k25_a": f"kimi_k25: {NO_ARCH}",
    "kimi_k25_b": f"kimi_k25: {NO_ARCH}",
    "kimi_linear_a": f"kimi_linear: {NO_ARCH}",
    "kimi_linear_b": f"kimi_linear: {NO_ARCH}",
    "lfm2_moe_a": f"lfm2_moe: {NO_ARCH}",
    "lfm2_moe_b": f"lfm2_moe: {NO_ARCH}",
    "llama4_a": f"llama4: {NO_ARCH}",
    "llama_b": "llama: the activation is silu",
    "llama4_text_a": "llama4: attention_chunk_size is 8192",
    "llama4_text_b": "llama4: attention_chunk_size is 8192",
    "minimax_m3_a": f"minimax_m3_vl: {NO_ARCH}",
    "minimax_m3_b": f"minimax_m3_vl_text: {NO_ARCH}",
    "mistral_a": "llama: there is no sliding window",
    "mistral_b": "llama: the activation is silu",
    "mixtral_a": "llama: there is no sliding window",
    "nemotron_h_a": f"nemotron_h: {NO_ARCH}",
    "nemotron_h_b": f"nemotron_h: {NO_ARCH}",
    "nemotron_h_c": f"nemotron_h: {NO_ARCH}",
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
    "qwen3_5_moe_a": f"qwen3_5_moe: {NO_ARCH}",
    "qwen3_5_moe_b": f"qwen3_5_moe_text: {NO_ARCH}",
    "qwen3_a": "qwen3: there is no bias of attn_output",
    "qwen3_b": "qwen3: there is no sliding window",
    "qwen3_moe_b": "qwen3moe: all layers have experts",
    "qwen3_next_a": f"qwen3_next: {NO_ARCH}",
    "qwen3_next_b": f"qwen3_next: {NO_ARCH}",
    "qwen3_vl_moe_a": f"qwen3_vl_moe: {NO_ARCH}",
    "qwen3_vl_moe_b": f"qwen3_vl_moe: {NO_ARCH}",
    "solar_open_a": f"solar_open: {NO_ARCH}",
    "solar_open_b": f"solar_open: {NO_ARCH}",
    "tinytagger": f"openai_privacy_filter: {NO_ARCH}",
    "zaya_a": f"zaya: {NO_ARCH}",
    "zaya_b": f"zaya: {NO_ARCH}",
    "zaya_c": f"zaya: {NO_ARCH}",
}
REPRESENTABLE = [case for case in CASES if case not in NOT_REPRESENTABLE]
BIASES = r".*(proj|proj_with_mqa|lm_head)\.bias"
# Variants of cases that GGUF cannot represent: changed config values and removed tensors.
VARIANTS = {
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
    tensors = {name: np.float32(values) for name, values in read_checkpoint(checkpoint).items()
               if not re.fullmatch(without, name)}
    write_tensors(folder / "model.safetensors", tensors)
    return folder
