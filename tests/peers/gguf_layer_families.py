"""What llama.cpp requires of families whose layers differ: by window, by mixer, or by place of the experts. Additions to
gguf_families.py, in the same form. `form` maps a tensor of a layer whose name or values differ from the usual ones to
tensors by GGUF name, or returns None."""

import numpy as np

PERIODS = {  # the types of layers of a class without a list: the period, and its number of leading full layers
    "afmoe": (["sliding_attention"] * 3 + ["full_attention"], 0), "mellum": (["full_attention"], 0),
    "granitemoe_swa": (["full_attention", "sliding_attention", "sliding_attention", "sliding_attention"], 0),
    "mimo_v2_flash": (["sliding_attention"] * 5 + ["full_attention"], 1),
}


def layer_types(c):
    listed = getattr(c, "layer_types", None)
    if listed or c.model_type not in PERIODS:
        return listed
    period, leading = PERIODS[c.model_type]
    types = (period * c.num_hidden_layers)[: c.num_hidden_layers]
    return ["full_attention"] * leading + types[leading:]


def windows(c):
    return {"attention.sliding_window": c.sliding_window,
            "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in layer_types(c)]}


def heads_of_mixers(c, heads):
    """llama.cpp recognizes layers without attention by their number of key heads, 0."""
    return {"attention.head_count_kv": [heads if kind in ("full_attention", "attention") else 0 for kind in layer_types(c)]}


def sigmoid_routing(c, scale):
    return {"expert_gating_func": 2, "expert_weights_norm": getattr(c, "norm_topk_prob", True),
            "expert_weights_scale": float(scale), "expert_feed_forward_length": c.moe_intermediate_size}


def leading(c):
    types = getattr(c, "mlp_layer_types", None)
    return {"leading_dense_block_count": types.index("sparse") if types else c.num_dense_layers}


def squeezed(values):
    return values.reshape(values.shape[0], values.shape[-1])


def exaone_keys(c):
    dense = (getattr(c, "is_moe_layer", None) or [kind == "sparse" for kind in c.mlp_layer_types]).index(True)
    groups = {"expert_group_count": c.n_group, "expert_group_used_count": c.topk_group} if c.n_group > 1 else {}
    return windows(c) | sigmoid_routing(c, c.routed_scaling_factor) | groups | {
        "leading_dense_block_count": dense, "expert_shared_feed_forward_length": c.num_shared_experts * c.moe_intermediate_size}


def dots1_keys(c):
    return sigmoid_routing(c, c.routed_scaling_factor) | {
        "expert_shared_count": c.n_shared_experts, "leading_dense_block_count": c.first_k_dense_replace}


def hy_v3_keys(c):
    return sigmoid_routing(c, c.router_scaling_factor) | {
        "expert_shared_feed_forward_length": c.num_shared_experts * c.moe_intermediate_size}


def afmoe_keys(c):
    return sigmoid_routing(c, c.route_scale) | leading(c) | {
        "attention.sliding_window": c.sliding_window, "expert_shared_count": c.num_shared_experts}


def lfm2_keys(c):
    routing = sigmoid_routing(c, 1)
    return heads_of_mixers(c, c.num_key_value_heads) | leading(c) | {
        "shortconv.l_cache": c.conv_L_cache, "expert_gating_func": 2,
        "expert_feed_forward_length": routing["expert_feed_forward_length"]}


def mimo_keys(c):
    full, sliding = (c.rope[kind] for kind in ("full_attention", "sliding_attention"))
    heads = [c.num_key_value_heads * (2 if kind == "sliding_attention" else 1) for kind in layer_types(c)]
    return windows(c) | {
        "attention.head_count_kv": heads, "attention.value_length": c.v_head_dim,
        "attention.value_scale": float(c.attention_value_scale), "expert_feed_forward_length": c.moe_intermediate_size,
        "rope.dimension_count": int(c.head_dim * full["partial_rotary_factor"]),
        "rope.freq_base": float(full["rope_theta"]), "rope.freq_base_swa": float(sliding["rope_theta"]),
    }


def mellum_keys(c):
    return windows(c) | {"expert_feed_forward_length": c.moe_intermediate_size}


def granite_swa_keys(c):
    thetas = getattr(c, "layer_rope_theta", None)
    rotated = {"attention.rope_pattern": [theta != 0 for theta in thetas]} if thetas else {}
    return windows(c) | rotated | {
        "logit_scale": float(c.logits_scaling), "embedding_scale": float(c.embedding_multiplier),
        "residual_scale": float(c.residual_multiplier), "attention.scale": float(c.attention_multiplier),
        "expert_shared_feed_forward_length": c.shared_intermediate_size}


def granite_swa_form(name, values, c):
    """The shared expert keeps its gate and up matrices in one tensor."""
    return {"ffn_up_shexp.weight": values} if name == "shared.input_linear.weight" else None


def sections(c):
    """Coordinates of an image patch: every pair belongs to one."""
    pairs = -(-int(head(c) * c.rope.get("partial_rotary_factor", 1)) // 2 // 3)
    return {"rope.dimension_sections": [pairs, pairs, pairs, 0]}


def head(c):
    return getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads


def delta_keys(c):
    return {
        "attention.recurrent_layers": [kind == "linear_attention" for kind in layer_types(c)],
        "ssm.conv_kernel": c.linear_conv_kernel_dim, "ssm.group_count": c.linear_num_key_heads,
        "ssm.time_step_rank": c.linear_num_value_heads, "ssm.state_size": c.linear_key_head_dim,
        "ssm.inner_size": c.linear_num_value_heads * c.linear_value_head_dim,
        "expert_feed_forward_length": c.moe_intermediate_size,
        "expert_shared_feed_forward_length": c.shared_expert_intermediate_size,
    }


def delta_form(name, values, c):
    """Norms with 1 + w are stored as that sum, and A_log as −exp(A_log)."""
    stem = name.removeprefix("linear_attn.")
    if name.endswith("norm.weight") and stem == name:
        known = {"input_layernorm": "attn_norm", "post_attention_layernorm": "post_attention_norm",
                 "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm"}
        return {f"{known[name.removesuffix('.weight')]}.weight": np.float32(np.float64(values) + 1)}
    simple = {"dt_bias": "ssm_dt.bias", "norm.weight": "ssm_norm.weight", "in_proj_ba.weight": "ssm_ba.weight",
              "in_proj_a.weight": "ssm_alpha.weight", "in_proj_b.weight": "ssm_beta.weight",
              "in_proj_qkv.weight": "attn_qkv.weight", "in_proj_z.weight": "attn_gate.weight",
              "out_proj.weight": "ssm_out.weight", "A_log": "ssm_a", "conv1d.weight": "ssm_conv1d.weight"}
    if stem == name or stem not in simple and stem != "in_proj_qkvz.weight":
        return None
    if stem == "in_proj_qkvz.weight":
        return split_qkvz(values, c)
    if stem == "A_log":
        values = -np.exp(np.float64(values))
    return {simple[stem]: squeezed(values) if stem == "conv1d.weight" else values}


def split_qkvz(values, c):
    key, value = c.linear_key_head_dim, c.linear_num_value_heads // c.linear_num_key_heads * c.linear_value_head_dim
    per_head = values.reshape(c.linear_num_key_heads, -1, values.shape[1])
    q, k, v, z = (part.reshape(-1, values.shape[1]) for part in np.split(per_head, [key, 2 * key, 2 * key + value], axis=1))
    return {"attn_qkv.weight": np.concatenate([q, k, v]), "attn_gate.weight": z}


def tiled(values, c, axis, begin, dims):
    """Reorders value heads [key heads, shared] to [shared, key heads]."""
    keys, shared = c.linear_num_key_heads, c.linear_num_value_heads // c.linear_num_key_heads
    values = np.moveaxis(values, axis, 0)
    rest = values[begin:].reshape(keys, shared, dims, *values.shape[1:]).swapaxes(0, 1).reshape(-1, *values.shape[1:])
    return np.moveaxis(np.concatenate([values[:begin], rest]), 0, axis)


def tiled_delta_form(name, values, c):
    of_keys = 2 * c.linear_num_key_heads * c.linear_key_head_dim
    places = {"in_proj_qkv.weight": (0, of_keys, c.linear_value_head_dim), "conv1d.weight": (0, of_keys, c.linear_value_head_dim),
              "in_proj_z.weight": (0, 0, c.linear_value_head_dim), "out_proj.weight": (1, 0, c.linear_value_head_dim),
              "in_proj_a.weight": (0, 0, 1), "in_proj_b.weight": (0, 0, 1), "A_log": (0, 0, 1), "dt_bias": (0, 0, 1)}
    place = places.get(name.removeprefix("linear_attn."))
    return delta_form(name, tiled(values, c, *place) if place else values, c)


def mamba_form(name, values, groups):
    """The tensors of Mamba-2, which the names have after the mixer's prefix."""
    simple = {"in_proj.weight": "ssm_in.weight", "conv1d.bias": "ssm_conv1d.bias", "dt_bias": "ssm_dt.bias",
              "out_proj.weight": "ssm_out.weight"}
    if name in simple:
        return {simple[name]: values}
    formed = {"conv1d.weight": ("ssm_conv1d.weight", squeezed), "A_log": ("ssm_a", lambda v: -np.exp(np.float64(v[:, None]))),
              "D": ("ssm_d", lambda v: v[:, None]), "norm.weight": ("ssm_norm.weight", lambda v: v.reshape(groups, -1))}
    return {formed[name][0]: formed[name][1](values)} if name in formed else None


def mamba_keys(taps, inner, heads, state, groups):
    return {"ssm.conv_kernel": taps, "ssm.inner_size": inner, "ssm.time_step_rank": heads, "ssm.state_size": state,
            "ssm.group_count": groups}


def granite_hybrid_keys(c):
    experts = c.num_local_experts
    scales = {"logit_scale": c.logits_scaling, "embedding_scale": c.embedding_multiplier,
              "residual_scale": c.residual_multiplier, "attention.scale": c.attention_multiplier}
    return heads_of_mixers(c, c.num_key_value_heads) | {key: float(value) for key, value in scales.items()} | mamba_keys(
        c.mamba_d_conv, c.mamba_expand * c.hidden_size, c.mamba_n_heads, c.mamba_d_state, c.mamba_n_groups) | {
        "rope.scaling.finetuned": c.position_embedding_type == "rope",
        "feed_forward_length": c.intermediate_size if experts else c.shared_intermediate_size,
        "expert_shared_feed_forward_length": c.shared_intermediate_size,
        "expert_used_count": c.num_experts_per_tok if experts else 0}


def granite_hybrid_form(name, values, c):
    if name.startswith("mamba."):
        return mamba_form(name.removeprefix("mamba."), values, c.mamba_n_groups)
    if c.num_local_experts or not name.startswith("shared."):
        return None
    if name == "shared.output_linear.weight":
        return {"ffn_down.weight": values}
    gate, up = np.split(values, 2)
    return {"ffn_gate.weight": gate, "ffn_up.weight": up}


def nemotron_keys(c):
    kinds = c.layers_block_type
    heads = [c.num_key_value_heads if kind == "full_attention" else 0 for kind in kinds]
    latent = {"moe_latent_size": c.moe_latent_size} if c.moe_latent_size else {}
    groups = {"expert_group_count": c.n_group, "expert_group_used_count": c.topk_group} if c.n_group > 1 else {}
    return latent | groups | mamba_keys(
        c.conv_kernel, c.mamba_num_heads * c.mamba_head_dim, c.mamba_num_heads, c.ssm_state_size, c.n_groups) | {
        "block_count": len(kinds), "attention.head_count_kv": heads,
        "attention.layer_norm_epsilon": float(c.layer_norm_epsilon),
        "attention.layer_norm_rms_epsilon": float(c.layer_norm_epsilon),
        "feed_forward_length": [c.moe_intermediate_size if kind == "moe" else 0 for kind in kinds],
        "expert_feed_forward_length": c.moe_intermediate_size,
        "expert_shared_feed_forward_length": c.moe_shared_expert_intermediate_size,
        "expert_weights_norm": c.norm_topk_prob, "expert_weights_scale": float(c.routed_scaling_factor)}


def nemotron_form(name, values, c):
    if name == "norm.weight":
        return {"attn_norm.weight": values}
    name = name.removeprefix("mixer.")
    known = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output", "gate": "ffn_gate_inp",
             "fc1_latent_proj": "ffn_latent_down", "fc2_latent_proj": "ffn_latent_up", "experts.up": "ffn_up_exps",
             "experts.down": "ffn_down_exps", "shared_experts.up_proj": "ffn_up_shexp",
             "shared_experts.down_proj": "ffn_down_shexp"}
    stem = name.removesuffix(".weight")
    if stem in known:
        return {f"{known[stem]}.weight": values}
    return mamba_form(name, values, c.n_groups)


def kimi_keys(c):
    linear = c.linear_attn_config
    kinds = [1 if i + 1 in linear["full_attn_layers"] else 0 for i in range(c.num_hidden_layers)]
    groups = {"expert_group_count": c.n_group, "expert_group_used_count": c.topk_group}
    return {
        "attention.head_count_kv": kinds, "attention.key_length": c.kv_lora_rank + c.qk_rope_head_dim,
        "attention.value_length": c.kv_lora_rank, "attention.key_length_mla": c.qk_nope_head_dim + c.qk_rope_head_dim,
        "attention.value_length_mla": c.v_head_dim, "attention.kv_lora_rank": c.kv_lora_rank,
        "rope.dimension_count": c.qk_rope_head_dim, "ssm.conv_kernel": linear["short_conv_kernel_size"],
        "kda.head_dim": linear["head_dim"], "expert_feed_forward_length": c.moe_intermediate_size,
        "expert_shared_count": c.n_shared_experts, "expert_gating_func": 2,
        "expert_weights_scale": float(c.routed_scaling_factor), "leading_dense_block_count": c.first_k_dense_replace,
    } | (groups if c.n_group > 1 else {})


def kimi_form(name, values, c):
    known = {"f_a_proj.weight": "ssm_f_a.weight", "f_b_proj.weight": "ssm_f_b.weight", "b_proj.weight": "ssm_beta.weight",
             "g_a_proj.weight": "ssm_g_a.weight", "g_b_proj.weight": "ssm_g_b.weight", "o_norm.weight": "ssm_norm.weight",
             "dt_bias": "ssm_dt.bias"} | {f"{part}_conv1d.weight": f"ssm_conv1d_{part}.weight" for part in "qkv"}
    stem = name.removeprefix("self_attn.")
    if stem == "A_log":
        return {"ssm_a": -np.exp(np.float64(values))}
    return {known[stem]: values} if stem in known else None


def gemma4_keys(c):
    full, sliding = (c.rope[kind] for kind in ("full_attention", "sliding_attention"))
    wide = c.per_layer_config[str(layer_types(c).index("full_attention"))]
    heads = [wide["num_key_value_heads"] if kind == "full_attention" else c.num_key_value_heads for kind in layer_types(c)]
    return windows(c) | {
        "attention.head_count_kv": heads, "attention.key_length": wide["head_dim"],
        "attention.value_length": wide["head_dim"], "attention.key_length_swa": c.head_dim,
        "attention.value_length_swa": c.head_dim, "embedding_length_per_layer_input": 0,
        "expert_feed_forward_length": c.moe_intermediate_size, "expert_used_count": c.top_k_experts,
        "final_logit_softcapping": float(c.final_logit_softcapping), "rope.dimension_count": wide["head_dim"],
        "rope.dimension_count_swa": c.head_dim, "rope.freq_base": float(full["rope_theta"]),
        "rope.freq_base_swa": float(sliding["rope_theta"])}


def gemma4_form(name, values, c):
    known = {"post_attention_layernorm.weight": "post_attention_norm.weight",
             "pre_feedforward_layernorm.weight": "ffn_norm.weight", "post_feedforward_layernorm.weight": "post_ffw_norm.weight",
             "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight",
             "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight",
             "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight", "layer_scalar": "layer_output_scale.weight",
             "router.per_expert_scale": "ffn_down_exps.scale", "router.scale": "ffn_gate_inp.scale",
             "router.proj.weight": "ffn_gate_inp.weight", "experts.down_proj": "ffn_down_exps.weight"}
    if name == "experts.gate_up_proj":
        gate, up = np.split(values, 2, axis=1)
        return {"ffn_gate_exps.weight": gate, "ffn_up_exps.weight": up}
    return {known[name]: values} if name in known else None


def gemma4_divisors(c):
    """Pairs that a proportional rotation leaves out have a divisor that stops them."""
    full = c.rope["full_attention"]
    pairs = gemma4_keys(c)["rope.dimension_count"] // 2
    rotated = int(pairs * full["partial_rotary_factor"])
    return [full.get("factor", 1.0)] * rotated + [1e30] * (pairs - rotated)


def temperature_keys(c):
    return {"attention.temperature_scale": c.rope["llama_4_scaling_beta"],
            "attention.temperature_length": c.rope["original_max_position_embeddings"]}


# ---- Limits ------------------------------------------------------------------------------------

NO_OUTPUT_BIAS = "there is no bias of attn_output"
ALL_EXPERTS = "all layers have experts"


def dots1_limits(c):
    yield "sliding_attention" in (c.layer_types or []), "there is no sliding window"
    yield c.num_key_value_heads != c.num_attention_heads, "each query head has its own key and value head"
    yield c.attention_bias, NO_OUTPUT_BIAS


def exaone_limits(c):
    types = getattr(c, "mlp_layer_types", None) or []
    yield "sparse" in types and "dense" in types[types.index("sparse"):], "dense layers come first"


def hy_v3_limits(c):
    yield c.attention_bias, NO_OUTPUT_BIAS
    yield c.mlp_bias, "feed-forward layers have no biases"


def afmoe_limits(c):
    turns = [("full" if i % 4 == 3 else "sliding") + "_attention" for i in range(c.num_hidden_layers)]
    yield layer_types(c) != turns, "every fourth layer sees all tokens and does not rotate"
    yield not c.mup_enabled, "embeddings are scaled"
    yield c.attention_bias, NO_OUTPUT_BIAS


def lfm2_limits(c):
    yield c.conv_bias, "convolutions and their maps have no biases"
    yield not c.norm_topk_prob, "weights are normalised"
    yield c.routed_scaling_factor != 1, "weights are not scaled"
    yield not c.use_expert_bias, "the choice has a bias"


def mimo_limits(c):
    yield c.attention_bias, "attention has no biases"
    yield c.routed_scaling_factor not in (None, 1), "weights are not scaled"


def mellum_limits(c):
    yield "dense" in (c.mlp_layer_types or []), ALL_EXPERTS
    yield not c.norm_topk_prob, "weights are normalised"
    bases = {c.rope[kind]["rope_theta"] for kind in layer_types(c)}
    yield len(bases) > 1, "all layers rotate with one base"


def granite_swa_limits(c):
    bases = {theta for theta in getattr(c, "layer_rope_theta", None) or [] if theta != 0}
    yield len(bases) > 1, "all rotating layers have one base"


def qwen3_vl_limits(c):
    yield bool(c.mlp_only_layers), ALL_EXPERTS
    yield c.attention_bias, NO_OUTPUT_BIAS


def delta_limits(c):
    yield c.linear_key_head_dim != c.linear_value_head_dim, "keys and values of delta nets have the same dims"
    yield bool(getattr(c, "mlp_only_layers", None)), ALL_EXPERTS
    yield not getattr(c, "norm_topk_prob", True), "weights are normalised"
    yield c.attention_bias, NO_OUTPUT_BIAS


def granite_hybrid_limits(c):
    yield c.mamba_proj_bias, "maps of mixers have no biases"
    yield c.mamba_expand != 2, "mixers are twice as wide as the stream"


def nemotron_limits(c):
    yield "mlp" in c.layers_block_type, "no layer is a dense one"
    yield c.mlp_bias, "feed-forward layers have no biases"


def kimi_limits(c):
    linear = getattr(c, "linear_attn_config", None)
    heads = linear["num_heads"] if linear else c.linear_num_heads
    yield heads != c.num_attention_heads, "delta nets have as many heads as attention"
    yield c.rms_norm_eps != 1e-6, "the latent norms have the eps of the others"
    yield c.q_lora_rank is not None, "queries have no latent"


def gemma4_limits(c):
    yield c.attention_bias, "attention has no biases"
    yield not c.attention_k_eq_v, "keys of layers that see all tokens are their values"


def mistral4_limits(c):
    yield not c.rope_interleave, "rotated pairs are consecutive: rope_interleave is true"
    yield c.attention_bias, "there are no biases"
