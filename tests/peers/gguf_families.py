"""What llama.cpp requires of each family: one row per family in FAMILIES, derived from what llama.cpp reads and
computes, independently of moec's own GGUF code.

A config is a namespace with the keys of config.json and the defaults of its class (gguf_models.resolved). Python
types correspond to the types of GGUF keys: int to u32, float to f32. A family's `limits` yields pairs (whether the
config exceeds the limit, limit).
"""

import math

import gguf_layer_families as layered
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Callable


class NotRepresentable(Exception):
    """llama.cpp's architecture cannot represent a part of this checkpoint."""


def head_dim(c):
    return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads


def experts(c):
    """Keys for the number of experts and for top-k; empty for a dense model."""
    counts = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
    used = ("num_experts_per_tok", "moe_topk", "moe_k")
    numbers = [next((vars(c)[key] for key in keys if vars(c).get(key) is not None), None) for keys in (counts, used)]
    return {} if numbers == [None, None] else dict(zip(("expert_count", "expert_used_count"), numbers, strict=True))


def rotated(c):
    return int(head_dim(c) * c.rope.get("full_attention", c.rope).get("partial_rotary_factor", 1))


def expert_width(c):
    return {"expert_feed_forward_length": c.moe_intermediate_size}


def own_width(c):
    """For families whose intermediate_size is the expert width."""
    return {"expert_feed_forward_length": c.intermediate_size}


def leading_dense(c):
    types = getattr(c, "mlp_layer_types", None)
    return types.index("sparse") if types else getattr(c, "first_k_dense_replace", 0)


def deepseek_routing(c):
    """Without expert_gating_func, llama.cpp silently uses softmax."""
    keys = {
        "leading_dense_block_count": leading_dense(c),
        "expert_shared_count": c.n_shared_experts,
        "expert_gating_func": 1 if c.model_type in ("deepseek_v2", "mistral4") else 2,
        "expert_weights_scale": float(c.routed_scaling_factor),
        "expert_weights_norm": c.norm_topk_prob,
    }
    if (c.n_group or 1) > 1:
        keys |= {"expert_group_count": c.n_group, "expert_group_used_count": c.topk_group}
    return keys


def deepseek_keys(c):
    """Latent attention has one key and value head; the `_mla` keys are the sizes of the expanded heads."""
    keys = {
        "attention.head_count_kv": 1,
        "attention.key_length": c.kv_lora_rank + c.qk_rope_head_dim,
        "attention.value_length": c.kv_lora_rank,
        "attention.key_length_mla": c.qk_nope_head_dim + c.qk_rope_head_dim,
        "attention.value_length_mla": c.v_head_dim,
        "attention.kv_lora_rank": c.kv_lora_rank,
        "attention.q_lora_rank": c.q_lora_rank or 0,
        "rope.dimension_count": c.qk_rope_head_dim,
    }
    if c.rope["rope_type"] == "yarn":
        keys["rope.scaling.yarn_log_multiplier"] = 0.1 * c.rope["mscale_all_dim"]
    return keys | expert_width(c) | deepseek_routing(c)


def deepseek_limits(c):
    types = getattr(c, "mlp_layer_types", None) or []
    yield "sparse" in types and "dense" in types[types.index("sparse"):], "dense layers come first"
    grouped = c.model_type == "deepseek_v2" and c.topk_method == "group_limited_greedy"
    yield grouped, "groups are ranked by the sum of their two best experts, not by the best"
    yield c.rope.get("mscale") != c.rope.get("mscale_all_dim"), "mscale and mscale_all_dim are one number"
    given = c.rope["rope_type"] != "yarn" or c.rope.get("mscale_all_dim")
    yield not given, "mscale_all_dim of yarn is given"
    yield not getattr(c, "rope_interleave", True), "rotated pairs are consecutive: rope_interleave is true"
    yield c.rms_norm_eps != 1e-6, "the latent norms have the eps of the others"
    yield c.attention_bias or getattr(c, "mlp_bias", False), "there are no biases"
    yield c.q_lora_rank is not None and c.num_hidden_layers in (26, 27), "26 and 27 layers have no query LoRA"


def dense_limits(c):
    """For architectures that support no windows, no additional biases, and only one activation."""
    yield c.hidden_act not in ("silu", "swish"), "the activation is silu"
    sliding = "sliding_attention" in (getattr(c, "layer_types", None) or ["sliding_attention"])
    windowed = getattr(c, "sliding_window", None) is not None and getattr(c, "use_sliding_window", True)
    yield windowed and sliding, "there is no sliding window"


def qwen2_dense_limits(c):
    yield from dense_limits(c)
    yield head_dim(c) * c.num_attention_heads != c.hidden_size, "heads are as wide together as the hidden state"


def qwen3_dense_limits(c):
    yield from dense_limits(c)
    yield c.attention_bias, "there is no bias of attn_output"


def qwen_limits(c):
    yield bool(c.mlp_only_layers) or c.decoder_sparse_step != 1, "all layers have experts"
    sliding = "sliding_attention" in (getattr(c, "layer_types", None) or ["sliding_attention"])
    yield c.use_sliding_window and sliding, "there is no sliding window"


def qwen2_limits(c):
    yield from qwen_limits(c)
    yield c.norm_topk_prob, "weights are not normalised"
    yield head_dim(c) * c.num_attention_heads != c.hidden_size, "heads are as wide together as the hidden state"


def qwen3_limits(c):
    yield from qwen_limits(c)
    yield not c.norm_topk_prob, "weights are normalised"
    yield c.attention_bias, "there is no bias of attn_output"


def olmoe_limits(c):
    yield c.num_key_value_heads != c.num_attention_heads, "each query head has its own key and value head"
    yield c.norm_topk_prob, "weights are not normalised"
    yield c.clip_qkv is not None, "there is no clip_qkv"
    yield c.attention_bias, "there is no bias of attn_output"


def granite_keys(c):
    keys = {
        "logit_scale": float(c.logits_scaling), "embedding_scale": float(c.embedding_multiplier),
        "residual_scale": float(c.residual_multiplier), "attention.scale": float(c.attention_multiplier),
    }
    shared = getattr(c, "shared_intermediate_size", 0)
    return keys | ({"expert_shared_feed_forward_length": shared} if shared else {})


def gpt_oss_limits(c):
    """No key states the windows or the constants of the activation."""
    yield not c.attention_bias, "attention has biases"
    yield (c.swiglu_alpha, c.swiglu_limit) != (1.702, 7.0), "swiglu_alpha is 1.702 and swiglu_limit is 7"
    turns = [("sliding_attention", "full_attention")[i % 2] for i in range(c.num_hidden_layers)]
    yield (c.layer_types or turns) != turns, "even layers slide, odd layers do not"


def ernie_keys(c):
    return expert_width(c) | {
        "leading_dense_block_count": c.moe_layer_start_index, "interleave_moe_layer_step": c.moe_layer_interval,
        "expert_shared_feed_forward_length": c.moe_num_shared_experts * c.moe_intermediate_size,
    }


def ernie_limits(c):
    """llama.cpp loads a bias of attn_output but does not add it."""
    yield c.moe_layer_interval != 1, "all layers behind the first ones have experts"
    yield c.moe_layer_end_index not in (-1, None, c.num_hidden_layers - 1), "the last layer has experts"
    yield c.use_bias, "attn_output and feed-forward layers have no biases"


def llama4_limits(c):
    """The constants of attention are in no key, and llama.cpp infers from the number of experts whether queries and
    keys are normalized."""
    turns = [int(i % 4 != 3) for i in range(c.num_hidden_layers)]
    yield c.attention_chunk_size != 8192, "attention_chunk_size is 8192"
    yield (c.no_rope_layers or turns) != turns, "every fourth layer is not rotated"
    yield (c.floor_scale, c.attn_scale) != (8192, 0.1), "floor_scale is 8192 and attn_scale is 0.1"
    yield not c.attn_temperature_tuning, "attn_temperature_tuning is true"
    yield c.use_qk_norm != (c.num_local_experts != 128), "use_qk_norm is true but with 128 experts"
    step = c.interleave_moe_layer_step
    spread = list(range(step - 1, c.num_hidden_layers, step))
    yield (c.moe_layers or spread) != spread, "layers with experts are evenly spread"
    yield c.attention_bias, "there is no bias of attn_output"


def hunyuan_keys(c):
    """The shared expert has the width of the other experts; alpha only changes the base."""
    h = head_dim(c)
    return own_width(c) | {
        "expert_shared_feed_forward_length": c.intermediate_size,
        "rope.freq_base": c.rope["rope_theta"] * c.rope.get("alpha", 1.0) ** (h / (h - 2)),
    }


SCALINGS = ("default", "linear", "yarn")
WITH_DIVISORS = (*SCALINGS, "llama3")  # for architectures that read rope_freqs.weight
# Up to the model's positions, which no export exceeds, a dynamic rotation equals the plain one.
DENSE = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class Family:
    arch: str
    keys: Callable = lambda c: {}  # additional keys of the architecture
    limits: Callable = lambda c: ()
    fused: str = "rows"  # gate_up_proj is stored as [E,2f,d], or transposed as "columns" or "interleaved"
    paired: bool = False  # rotates consecutive pairs, so rows of q and k, stored as halves, are permuted
    post_norm: str = "ffn_norm"
    needs_head: bool = False  # whether a missing head is not replaced by the embedding
    scalings: tuple = SCALINGS  # supported kinds of rotary scaling
    form: Callable = lambda name, values, c: None  # tensors with other names or values
    choice_bias: str = "exp_probs_b.bias"
    norms_plus_one: bool = False  # the checkpoint's norms multiply by 1 + w
    rotates: Callable = lambda c: True


FAMILIES = {
    "mixtral": Family(
        "llama", limits=lambda c: [(c.sliding_window is not None, "there is no sliding window")], paired=True,
        scalings=WITH_DIVISORS),
    "llama": Family("llama", limits=dense_limits, paired=True, scalings=(*WITH_DIVISORS, "dynamic")),
    "mistral": Family("llama", limits=dense_limits, paired=True, scalings=(*WITH_DIVISORS, "dynamic")),
    "qwen2": Family("qwen2", limits=qwen2_dense_limits, scalings=(*SCALINGS, "dynamic")),
    "qwen3": Family("qwen3", limits=qwen3_dense_limits, scalings=(*SCALINGS, "dynamic")),
    "qwen2_moe": Family(
        "qwen2moe",
        lambda c: expert_width(c) | {"expert_shared_feed_forward_length": c.shared_expert_intermediate_size},
        qwen2_limits, needs_head=True),
    "qwen3_moe": Family("qwen3moe", expert_width, qwen3_limits),
    "olmoe": Family("olmoe", limits=olmoe_limits, needs_head=True),
    "granitemoe": Family("granitemoe", granite_keys, paired=True, scalings=WITH_DIVISORS),
    "granitemoeshared": Family("granitemoe", granite_keys, paired=True, scalings=WITH_DIVISORS),
    "glm4_moe": Family("glm4moe", lambda c: expert_width(c) | deepseek_routing(c), post_norm="post_attention_norm"),
    "glm4v_moe_text": Family(
        "glm4moe", lambda c: expert_width(c) | deepseek_routing(c), post_norm="post_attention_norm"),
    "solar_open": Family("glm4moe", lambda c: expert_width(c) | deepseek_routing(c), post_norm="post_attention_norm"),
    "glm4_moe_lite": Family("deepseek2", deepseek_keys, deepseek_limits),
    "minimax_m2": Family("minimax-m2", lambda c: own_width(c) | {"expert_gating_func": 2}, needs_head=True),
    "deepseek_v2": Family("deepseek2", deepseek_keys, deepseek_limits),
    "deepseek_v3": Family("deepseek2", deepseek_keys, deepseek_limits),
    "gpt_oss": Family(
        "gpt-oss", lambda c: own_width(c) | {"attention.sliding_window": c.sliding_window}, gpt_oss_limits,
        "interleaved", post_norm="post_attention_norm", needs_head=True),
    "ernie4_5_moe": Family("ernie4_5-moe", ernie_keys, ernie_limits),
    "llama4_text": Family(
        "llama4", lambda c: own_width(c) | {"interleave_moe_layer_step": c.interleave_moe_layer_step,
                                            "feed_forward_length": c.intermediate_size_mlp},
        llama4_limits, "columns", scalings=WITH_DIVISORS),
    "dots1": Family("dots1", layered.dots1_keys, layered.dots1_limits, needs_head=True),
    "exaone_moe": Family("exaone-moe", layered.exaone_keys, layered.exaone_limits, needs_head=True, scalings=WITH_DIVISORS),
    "hy_v3": Family("hy_v3", layered.hy_v3_keys, layered.hy_v3_limits, choice_bias="exp_probs_b"),
    "afmoe": Family("afmoe", layered.afmoe_keys, layered.afmoe_limits, post_norm="post_attention_norm"),
    "lfm2_moe": Family("lfm2moe", layered.lfm2_keys, layered.lfm2_limits),
    "mimo_v2_flash": Family("mimo2", layered.mimo_keys, layered.mimo_limits, needs_head=True, scalings=("default",)),
    "mellum": Family("mellum", layered.mellum_keys, layered.mellum_limits, needs_head=True),
    "granitemoe_swa": Family("granite_swa", layered.granite_swa_keys, layered.granite_swa_limits, paired=True, scalings=WITH_DIVISORS,
                             form=layered.granite_swa_form),
    "qwen3_vl_moe_text": Family(
        "qwen3vlmoe", lambda c: expert_width(c) | layered.sections(c), layered.qwen3_vl_limits, fused="columns",
        scalings=("default",)),
    "qwen3_next": Family("qwen3next", layered.delta_keys, layered.delta_limits, form=layered.delta_form, norms_plus_one=True),
    "qwen3_5_moe_text": Family(
        "qwen35moe", lambda c: layered.delta_keys(c) | layered.sections(c), layered.delta_limits,
        form=layered.tiled_delta_form, scalings=("default",),
        norms_plus_one=True),
    "granitemoehybrid": Family(
        "granitehybrid", layered.granite_hybrid_keys, layered.granite_hybrid_limits, form=layered.granite_hybrid_form, paired=True,
        scalings=WITH_DIVISORS, rotates=lambda c: c.position_embedding_type == "rope"),
    "nemotron_h": Family("nemotron_h_moe", layered.nemotron_keys, layered.nemotron_limits, form=layered.nemotron_form, rotates=lambda c: False),
    "kimi_linear": Family(
        "kimi-linear", layered.kimi_keys, layered.kimi_limits, form=layered.kimi_form, needs_head=True, rotates=lambda c: False),
    "gemma4_text": Family(
        "gemma4", layered.gemma4_keys, layered.gemma4_limits, form=layered.gemma4_form,
        scalings=("default", "proportional")),
    "mistral4": Family("mistral4", lambda c: deepseek_keys(c) | layered.temperature_keys(c), layered.mistral4_limits,
                       scalings=("yarn",)),
    "hunyuan_v1_moe": Family(
        "hunyuan-moe", hunyuan_keys, lambda c: [(c.attention_bias, "there is no bias of attn_output")],
        scalings=("default", "dynamic")),
}


def frequencies(c):
    """The angle by which one position rotates each pair, before scaling."""
    rotary = getattr(c, "qk_rope_head_dim", None) or rotated(c)
    return rotary, [c.rope["rope_theta"] ** (-2 * i / rotary) for i in range(rotary // 2)]


def yarn_ramp(c, fast=32, slow=1, truncate=True):
    """Interpolation weight of each pair between its own and the scaled frequency."""
    rope, (rotary, angles) = c.rope, frequencies(c)
    low, high = (rotary * math.log(rope["original_max_position_embeddings"] / (2 * math.pi * turns))
                 / (2 * math.log(rope["rope_theta"]))
                 for turns in (fast, slow))
    if truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary - 1)
    return [min(max((i - low) / max(high - low, 0.001), 0), 1) for i in range(len(angles))]


def rope_type(c):
    """The scaling of layers that see all keys, or of all layers."""
    rope = (c.rope or {}).get("full_attention", c.rope) or {}
    return rope.get("rope_type", "default")


def scaling_limits(c, family):
    kind = rope_type(c)
    yield kind not in family.scalings, f"rotations are not scaled as {kind}"
    grows = kind == "dynamic" and "alpha" not in c.rope and c.model_type not in DENSE
    yield grows, "rotations do not depend on the length of the text"
    if kind == "yarn":
        yield c.rope.get("attention_factor") is not None, "the attention factor of yarn follows from its factor"
        c = SimpleNamespace(**vars(c) | {"rope": c.rope.get("full_attention", c.rope)})
        own = yarn_ramp(c, c.rope.get("beta_fast", 32), c.rope.get("beta_slow", 1), c.rope.get("truncate", True))
        yield own != yarn_ramp(c), "the range of yarn has beta_fast 32, beta_slow 1 and whole dims"


def scaling_keys(c):
    rope = (c.rope or {}).get("full_attention", c.rope)
    if rope_type(c) == "linear":
        return {"rope.scaling.type": "linear", "rope.scaling.factor": float(rope["factor"])}
    if rope_type(c) != "yarn":
        return {}
    return {
        "rope.scaling.type": "yarn", "rope.scaling.factor": float(rope["factor"]),
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
    }


def llama3_divisors(c):
    """The divisor of each pair's frequency."""
    rope, (_, angles) = c.rope, frequencies(c)
    slow, fast = rope["low_freq_factor"], rope["high_freq_factor"]
    divisors = []
    for angle in angles:
        turns = rope["original_max_position_embeddings"] * angle / (2 * math.pi)
        kept = min(max((turns - slow) / (fast - slow), 0), 1)
        divisors.append(1 / ((1 - kept) / rope["factor"] + kept))
    return divisors


def common_keys(c):
    eps = next(getattr(c, key) for key in ("rms_norm_eps", "norm_eps", "layer_norm_epsilon") if hasattr(c, key))
    positions = getattr(c, "max_position_embeddings", None) or c.model_max_length
    width = {"feed_forward_length": c.intermediate_size} if getattr(c, "intermediate_size", None) else {}
    return experts(c) | {
        "block_count": getattr(c, "num_hidden_layers", None), "context_length": positions,
        "embedding_length": c.hidden_size, **width, "vocab_size": c.vocab_size,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": getattr(c, "num_key_value_heads", None) or c.num_attention_heads,
        "attention.key_length": head_dim(c), "attention.value_length": head_dim(c),
        "attention.layer_norm_rms_epsilon": float(eps),
    } | rotation_keys(c)


def rotation_keys(c):
    rope = (c.rope or {}).get("full_attention", c.rope)
    if not FAMILIES[c.model_type].rotates(c) or not rope:
        return {"rope.dimension_count": head_dim(c)}
    return {"rope.freq_base": float(rope["rope_theta"]), "rope.dimension_count": rotated(c)}


def keys_of(c):
    """All keys of the model, without prefix, except architecture and tokenizer keys."""
    family = FAMILIES.get(c.model_type)
    if family is None:
        raise NotRepresentable(f"{c.model_type}: moec knows no architecture of llama.cpp for it")
    for exceeded, limit in [*scaling_limits(c, family), *family.limits(c)]:
        if exceeded:
            raise NotRepresentable(f"{family.arch}: {limit}")
    return common_keys(c) | scaling_keys(c) | family.keys(c)
