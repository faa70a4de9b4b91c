"""Random checkpoints of families that transformers 5.24 added or that came last; cases.py describes the entries."""

from transformers.models.afmoe import AfmoeConfig
from transformers.models.axk1 import AXK1Config
from transformers.models.bailing_hybrid import BailingHybridConfig
from transformers.models.cohere2_moe import Cohere2MoeConfig
from transformers.models.flex_olmo import FlexOlmoConfig
from transformers.models.flint import FlintConfig
from transformers.models.granitemoe_swa import GraniteMoeSWAConfig
from transformers.models.kolibri1 import Kolibri1Config
from transformers.models.laguna import LagunaConfig
from transformers.models.lara_mini import LaraMiniConfig
from transformers.models.mimo_v2_flash import MiMoV2FlashConfig
from transformers.models.mistral4 import Mistral4Config
from transformers.models.sarvam_moe import SarvamMoEConfig

from golden.case_parts import BF16, F16, rope

FULL, SLIDING = "full_attention", "sliding_attention"

LATER = {
    # norms after attention and experts, biases, renormalised
    "flex_olmo_a": dict(family="flex_olmo", disk=BF16, config=FlexOlmoConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_experts=7, num_experts_per_tok=3, norm_topk_prob=True, attention_bias=True, vocab_size=90,
        pad_token_id=None, eos_token_id=1, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(2000.0))),
    # fused experts on disk, tied; key heads, routing and rotation are the class's defaults
    "flex_olmo_b": dict(family="flex_olmo", disk=F16, fused=True, config=FlexOlmoConfig, absent=[
        "attention_bias", "hidden_act", "norm_topk_prob", "num_key_value_heads", "rms_norm_eps", "rope_parameters"],
        args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_experts=6,
        num_experts_per_tok=2, vocab_size=87, pad_token_id=None, eos_token_id=1, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # scaled embeddings, two dense layers, every third layer without window and rotation
    "afmoe_a": dict(family="afmoe", disk=BF16, config=AfmoeConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=4, num_dense_layers=2,
        num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_experts=7, num_experts_per_tok=3,
        num_shared_experts=1, route_scale=1.7, global_attn_every_n_layers=3, sliding_window=5, mup_enabled=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(700.0))),
    # biases, fused experts on disk, tied; the rest are the class's defaults
    "afmoe_b": dict(family="afmoe", disk=F16, fused=True, config=AfmoeConfig, absent=[
        "global_attn_every_n_layers", "hidden_act", "layer_types", "mup_enabled", "num_dense_layers",
        "num_key_value_heads", "num_shared_experts", "rms_norm_eps", "rope_parameters", "route_scale", "sliding_window"],
        args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=4, num_attention_heads=5,
        head_dim=8, num_experts=6, num_experts_per_tok=2, attention_bias=True, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # dense layer 1, biases; windows by list
    "flint_a": dict(family="flint", disk=BF16, config=FlintConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, shared_expert_intermediate_size=28,
        num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_experts=7,
        num_experts_per_tok=3, norm_topk_prob=False, mlp_only_layers=[1], attention_bias=True, sliding_window=5,
        layer_types=[SLIDING, FULL, SLIDING], vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(2000.0))),
    # fused experts on disk, tied; dense layers 0 and 1 and the layers with windows (2, 3 and 4 of 6) are the class's
    # defaults
    "flint_b": dict(family="flint", disk=F16, fused=True, config=FlintConfig, absent=[
        "attention_bias", "decoder_sparse_step", "hidden_act", "layer_types", "mlp_only_layers", "norm_topk_prob",
        "rms_norm_eps", "rope_parameters", "sliding_window"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, shared_expert_intermediate_size=20,
        num_hidden_layers=6, num_attention_heads=5, num_key_value_heads=1, head_dim=8, num_experts=6,
        num_experts_per_tok=2, vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96)),
    # renormalised; windows by list
    "kolibri1_a": dict(family="kolibri1", disk=BF16, config=Kolibri1Config, args=dict(
        hidden_size=48, moe_intermediate_size=20, shared_expert_intermediate_size=28, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_experts=7, num_experts_per_tok=3,
        norm_topk_prob=True, sliding_window=5, layer_types=[SLIDING, FULL], vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope(2000.0))),
    # fused experts on disk, tied; windows and routing are the class's defaults, which make layer 4 full
    "kolibri1_b": dict(family="kolibri1", disk=F16, fused=True, config=Kolibri1Config, absent=[
        "hidden_act", "layer_types", "norm_topk_prob", "rms_norm_eps", "rope_parameters", "sliding_window"], args=dict(
        hidden_size=40, moe_intermediate_size=28, shared_expert_intermediate_size=20, num_hidden_layers=5,
        num_attention_heads=5, num_key_value_heads=1, head_dim=8, num_experts=6, num_experts_per_tok=2, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # groups, biases, dense layer 0, half of each head rotated
    "sarvam_moe_a": dict(family="sarvam_moe", disk=BF16, config=SarvamMoEConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2,
        n_shared_experts=2, routed_scaling_factor=1.5, attention_bias=True, first_k_dense_replace=1, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, partial_rotary_factor=0.5))),
    # no norms of queries and keys, fused experts on disk, tied; routing and rotation are the class's defaults
    "sarvam_moe_b": dict(family="sarvam_moe", disk=F16, fused=True, config=SarvamMoEConfig, absent=[
        "attention_bias", "first_k_dense_replace", "hidden_act", "n_group", "n_shared_experts", "norm_topk_prob",
        "rms_norm_eps", "rope_parameters", "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=3, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, n_routed_experts=6, num_experts_per_tok=2, use_qk_norm=False, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # groups, dense layer 1 by list, YaRN
    "axk1_a": dict(family="axk1", disk=BF16, config=AXK1Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=1.5, mlp_layer_types=["sparse", "dense", "sparse"], vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # halves rotated, biases, fused experts on disk, tied; scale, renormalisation and dense layer 0 are the class's
    # defaults
    "axk1_b": dict(family="axk1", disk=F16, fused=True, config=AXK1Config, absent=[
        "hidden_act", "mlp_layer_types", "n_shared_experts", "norm_topk_prob", "rms_norm_eps", "routed_scaling_factor"],
        args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=5, q_lora_rank=16, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        n_routed_experts=6, num_experts_per_tok=2, n_group=1, topk_group=1, rope_interleave=False, attention_bias=True,
        vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # multipliers, a shared expert, a layer without rotation and two bases
    "granitemoe_swa_a": dict(family="granitemoe_swa", disk=BF16, fused=True, config=GraniteMoeSWAConfig, args=dict(
        hidden_size=48, intermediate_size=20, shared_intermediate_size=28, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, num_local_experts=7, num_experts_per_tok=3, sliding_window=5,
        layer_types=[SLIDING, FULL, SLIDING, FULL], layer_rope_theta=[700.0, 0, 20000.0, 700.0],
        embedding_multiplier=3.0, residual_multiplier=0.7, attention_multiplier=0.3, logits_scaling=2.5, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(3000.0))),
    # biases, fused experts on disk, tied, no shared expert; windows and rotations are the class's defaults
    "granitemoe_swa_b": dict(family="granitemoe_swa", disk=F16, fused=True, config=GraniteMoeSWAConfig, absent=[
        "attention_multiplier", "embedding_multiplier", "hidden_act", "layer_rope_theta", "layer_types",
        "logits_scaling", "residual_multiplier", "rms_norm_eps", "rope_parameters", "shared_intermediate_size",
        "sliding_window"], args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=5, num_attention_heads=5, num_key_value_heads=1,
        num_local_experts=6, num_experts_per_tok=2, attention_bias=True, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # groups, dense layer 0, YaRN, a temperature of the queries that changes at every fifth position
    "mistral4_a": dict(family="mistral4", disk=BF16, fused=True, config=Mistral4Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=1.5, norm_topk_prob=False, first_k_dense_replace=1, vocab_size=90, pad_token_id=None,
        eos_token_id=2, tie_word_embeddings=False, max_position_embeddings=40,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
                             original_max_position_embeddings=5, llama_4_scaling_beta=0.3))),
    # queries without a latent, halves rotated, biases, tied; routing and rotation are the class's defaults
    "mistral4_b": dict(family="mistral4", disk=F16, fused=True, config=Mistral4Config, absent=[
        "first_k_dense_replace", "hidden_act", "n_group", "n_shared_experts", "norm_topk_prob", "rms_norm_eps",
        "rope_parameters", "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        n_routed_experts=6, num_experts_per_tok=2, rope_interleave=False, attention_bias=True, vocab_size=87,
        pad_token_id=None, eos_token_id=2, tie_word_embeddings=True)),
    # query heads per layer, two windows, a gate per channel, capped logits of routers, YaRN in full layers
    "laguna_a": dict(family="laguna", disk=BF16, config=LagunaConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, shared_expert_intermediate_size=28,
        num_hidden_layers=3, num_attention_heads=6, num_attention_heads_per_layer=[4, 6, 8], num_key_value_heads=2,
        head_dim=12, num_experts=7, num_experts_per_tok=3, gating="per-element", moe_routed_scaling_factor=1.7,
        moe_router_logit_softcapping=1.5, sliding_window=5, layer_types=[SLIDING, FULL, SLIDING],
        mlp_layer_types=["sparse", "dense", "sparse"], vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=dict(
            full_attention=rope(2000.0, "yarn", factor=8.0, original_max_position_embeddings=12,
                                partial_rotary_factor=0.5),
            sliding_attention=rope(500.0, partial_rotary_factor=1.0)))),
    # a gate per head, biases, fused experts on disk, tied; types of layers, routing and rotations are the class's
    # defaults
    "laguna_b": dict(family="laguna", disk=F16, fused=True, config=LagunaConfig, absent=[
        "gating", "hidden_act", "layer_types", "mlp_layer_types", "moe_routed_scaling_factor",
        "moe_router_logit_softcapping", "num_attention_heads_per_layer", "rms_norm_eps", "rope_parameters",
        "sliding_window"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, shared_expert_intermediate_size=20,
        num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1, head_dim=8, num_experts=6,
        num_experts_per_tok=2, attention_bias=True, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # latent attention in layer 1 of 3, groups, dense layer 0, a latent of the queries
    "bailing_hybrid_a": dict(family="bailing_hybrid", disk=BF16, config=BailingHybridConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, head_dim=8, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6,
        v_head_dim=7, num_local_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=1.5, first_k_dense_replace=1, layer_group_size=2, kda_lower_bound=-3.0,
        short_conv_kernel_size=3, num_mtp_layers=0, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_theta=700.0)),
    # unbounded decays, fused experts on disk; attention in layer 5 of 6 and the rotation are the class's defaults
    "bailing_hybrid_b": dict(family="bailing_hybrid", disk=F16, fused=True, config=BailingHybridConfig, absent=[
        "hidden_act", "layer_group_size", "layer_types", "rms_norm_eps", "routed_scaling_factor",
        "short_conv_kernel_size"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=6, num_attention_heads=5,
        num_key_value_heads=5, head_dim=8, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        num_local_experts=6, num_experts_per_tok=2, n_group=1, topk_group=1, kda_safe_gate=False, num_mtp_layers=0,
        vocab_size=87, tie_word_embeddings=False, max_position_embeddings=96)),
    # one of each mixer, biases
    "lara_mini_a": dict(family="lara_mini", disk=BF16, fused="released", config=LaraMiniConfig, args=dict(
        hidden_size=48, moe_intermediate_size=20, shared_expert_intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_experts=7, num_experts_per_tok=3,
        norm_topk_prob=False, attention_bias=True, sliding_window=5,
        layer_types=["linear_attention", SLIDING, FULL], linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=6, linear_value_head_dim=10, linear_conv_kernel_dim=3, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(2000.0))),
    # separate maps of the mixer and fused experts on disk, tied; the pattern of layers is the class's default
    "lara_mini_b": dict(family="lara_mini", disk=F16, fused=True, config=LaraMiniConfig, absent=[
        "attention_bias", "hidden_act", "layer_types", "linear_conv_kernel_dim", "norm_topk_prob", "rms_norm_eps",
        "rope_parameters", "sliding_window"], args=dict(
        hidden_size=40, moe_intermediate_size=28, shared_expert_intermediate_size=20, num_hidden_layers=6,
        num_attention_heads=5, num_key_value_heads=1, head_dim=8, num_experts=6, num_experts_per_tok=2,
        linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=8, linear_value_head_dim=6,
        vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96)),
    # windows of 4 earlier tokens by list, groups, biases, dense layer 0, other values' dims, two rotations
    "mimo_v2_flash_a": dict(family="mimo_v2_flash", disk=BF16, config=MiMoV2FlashConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=8,
        num_key_value_heads=2, head_dim=12, v_head_dim=10, n_routed_experts=9, num_experts_per_tok=3, n_group=3,
        topk_group=2, routed_scaling_factor=1.5, attention_bias=True, attention_value_scale=0.6, sliding_window=5,
        layer_types=[SLIDING, FULL, SLIDING], vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=dict(full_attention=rope(2000.0, partial_rotary_factor=0.5),
                             sliding_attention=rope(500.0, partial_rotary_factor=0.334)))),
    # fused experts on disk, tied; types of layers, windows, routing and rotations are the class's defaults
    "mimo_v2_flash_b": dict(family="mimo_v2_flash", disk=F16, fused=True, config=MiMoV2FlashConfig, absent=[
        "attention_bias", "attention_value_scale", "hidden_act", "layer_types", "mlp_layer_types", "n_group",
        "norm_topk_prob", "rms_norm_eps", "rope_parameters", "routed_scaling_factor", "sliding_window", "topk_group"],
        args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=1, head_dim=12, v_head_dim=8, n_routed_experts=6, num_experts_per_tok=2, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # sigmoids of the chosen, sum with the shared experts, biases; dense layer 0 sees all keys and rotates
    "cohere2_moe_a": dict(family="cohere2_moe", disk=BF16, config=Cohere2MoeConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_experts=7, num_experts_per_tok=3, num_shared_experts=2, expert_selection_fn="sigmoid",
        shared_expert_combination_strategy="sum", mlp_layer_types=["dense", "sparse", "sparse", "sparse"],
        layer_types=[FULL, SLIDING, FULL, SLIDING], prefix_dense_intermediate_size=36, sliding_window=5,
        attention_bias=True, rms_norm_eps=None, logit_scale=0.4, vocab_size=90, eos_token_id=1, tie_word_embeddings=False,
        max_position_embeddings=96, rope_theta=2000.0, rope_parameters=rope(2000.0))),
    # softmax of the chosen, mean with the shared expert, fused experts on disk, tied; windows (layer 3 sees all keys)
    # and norms are the class's defaults
    "cohere2_moe_b": dict(family="cohere2_moe", disk=F16, fused=True, config=Cohere2MoeConfig, absent=[
        "attention_bias", "expert_selection_fn", "hidden_act", "layer_norm_eps", "layer_types", "logit_scale",
        "mlp_layer_types", "norm_topk_prob", "num_key_value_heads", "prefix_dense_intermediate_size",
        "prefix_dense_sliding_window_pattern", "rms_norm_eps", "rope_parameters", "rope_scaling", "rope_theta",
        "shared_expert_combination_strategy", "sliding_window", "sliding_window_pattern"], args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=4, num_attention_heads=5, head_dim=8, num_experts=6,
        num_experts_per_tok=2, num_shared_experts=1, rms_norm_eps=None, vocab_size=87, eos_token_id=1, tie_word_embeddings=True,
        max_position_embeddings=96)),
}
