"""Random checkpoints of families released at the end of 2025 and in 2026; cases.py describes the entries."""

from transformers import DeepseekV3Config, DeepseekV32Config, Dots1Config, ExaoneMoeConfig, Glm4MoeLiteConfig
from transformers import GlmMoeDsaConfig, HYV3Config
from transformers import Gemma4TextConfig, Lfm2MoeConfig, Llama4TextConfig, Qwen3_5MoeTextConfig, Qwen3NextConfig, SolarOpenConfig
from transformers.models.ernie4_5_vl_moe import Ernie4_5_VLMoeTextConfig
from transformers.models.glm4v_moe import Glm4vMoeTextConfig
from transformers.models.mellum import MellumConfig
from transformers.models.minimax_m3_vl import MiniMaxM3VLTextConfig
from transformers.models.qwen3_vl_moe import Qwen3VLMoeTextConfig
from transformers.models.sarvam_mla import SarvamMLAConfig

from golden.case_parts import BF16, F16, rope

RECENT = {
    # windows of 5 tokens and rotations by layer type, one with YaRN; a dense layer, head_dim 12 where d/H is 8
    "mellum_a": dict(family="mellum", disk=BF16, config=MellumConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, num_experts=7, num_experts_per_tok=3, sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        mlp_layer_types=["sparse", "dense", "sparse"], vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=dict(
            full_attention=rope(2000.0, "yarn", factor=8.0, original_max_position_embeddings=12),
            sliding_attention=rope(500.0)))),
    # full attention in all layers, which all have experts, and no renormalisation; fused experts on disk, tied; types of
    # layers, window and rotations are the class's defaults
    "mellum_b": dict(family="mellum", disk=F16, fused=True, config=MellumConfig, absent=[
        "attention_bias", "hidden_act", "layer_types", "mlp_layer_types", "rms_norm_eps", "rope_parameters",
        "sliding_window"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # groups, dense layer 0, YaRN, queries without a latent as in the release
    "sarvam_mla_a": dict(family="sarvam_mla", disk=BF16, config=SarvamMLAConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=None, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=1.5, norm_topk_prob=True, first_k_dense_replace=1, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # a latent of the queries, halves rotated, fused experts on disk, tied; routing, biases and the dense layer 0 are the
    # class's defaults
    "sarvam_mla_b": dict(family="sarvam_mla", disk=F16, fused=True, config=SarvamMLAConfig, absent=[
        "attention_bias", "first_k_dense_replace", "hidden_act", "n_group", "n_shared_experts", "norm_topk_prob",
        "num_key_value_heads", "rms_norm_eps", "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=3, num_attention_heads=5,
        q_lora_rank=18, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=6,
        num_experts_per_tok=2, rope_interleave=False, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope())),
    # groups, dense layer 1 by the list of types, YaRN, two shared experts
    "glm4_moe_lite_a": dict(family="glm4_moe_lite", disk=BF16, config=Glm4MoeLiteConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=2.5, mlp_layer_types=["sparse", "dense", "sparse"], vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # queries without a latent, halves rotated, biases of attention, no renormalisation, fused experts on disk, tied;
    # routing scale, groups and the dense layer 0 are the class's defaults
    "glm4_moe_lite_b": dict(family="glm4_moe_lite", disk=F16, fused=True, config=Glm4MoeLiteConfig, absent=[
        "mlp_layer_types", "n_group", "n_shared_experts", "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=3, num_attention_heads=5,
        num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        n_routed_experts=6, num_experts_per_tok=2, norm_topk_prob=False, attention_bias=True, rope_interleave=False,
        vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # the keys of the release: a pattern of letters in addition to the layer types, flags of MoE layers; groups, two
    # shared experts, head_dim 12 where d/H is 8
    "exaone_moe_a": dict(family="exaone_moe", disk=BF16, config=ExaoneMoeConfig, absent=[
        "mlp_layer_types", "first_k_dense_replace"], instead=dict(
        first_last_k_dense_replace=1, is_moe_layer=[False, True, True], scoring_func="sigmoid", topk_method="noaux_tc"),
        args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, num_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2,
        num_shared_experts=2, routed_scaling_factor=1.7, sliding_window=5, sliding_window_pattern="LG",
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], vocab_size=97,
        tie_word_embeddings=False, max_position_embeddings=128, rope_parameters=rope(1e6))),
    # every third layer is full, by the class's rule; a dense layer between MoE layers, fused experts, no
    # renormalisation, as many key heads as query heads, tied, llama3 frequency scaling
    "exaone_moe_b": dict(family="exaone_moe", disk=F16, fused=True, config=ExaoneMoeConfig, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=4, num_attention_heads=5,
        num_key_value_heads=5, num_experts=6, num_experts_per_tok=2, norm_topk_prob=False, sliding_window=7,
        sliding_window_pattern=3, mlp_layer_types=["sparse", "dense", "sparse", "sparse"], vocab_size=90,
        tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope(
            10000.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32))),
    # three DeltaNets with two value heads per key head, then gated attention
    "qwen3_next_a": dict(family="qwen3_next", disk=BF16, config=Qwen3NextConfig, args=dict(
        hidden_size=48, intermediate_size=44, moe_intermediate_size=20, shared_expert_intermediate_size=28,
        num_hidden_layers=4, num_attention_heads=6, num_key_value_heads=2, head_dim=16, num_experts=5,
        num_experts_per_tok=2, norm_topk_prob=True, linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=14, linear_value_head_dim=10, linear_conv_kernel_dim=4, vocab_size=95,
        tie_word_embeddings=False, max_position_embeddings=128, rope_parameters=rope(1e6, partial_rotary_factor=0.25))),
    # fused experts on disk, listed layer types, a dense layer, biases on q/k/v/o, no renormalisation, tied
    "qwen3_next_b": dict(family="qwen3_next", disk=F16, fused=True, config=Qwen3NextConfig, args=dict(
        hidden_size=60, intermediate_size=36, moe_intermediate_size=28, shared_expert_intermediate_size=20,
        num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=5, head_dim=12, num_experts=6,
        num_experts_per_tok=3, norm_topk_prob=False, attention_bias=True, linear_num_key_heads=3,
        linear_num_value_heads=3, linear_key_head_dim=8, linear_value_head_dim=14, linear_conv_kernel_dim=3,
        layer_types=["full_attention", "linear_attention", "linear_attention"], mlp_only_layers=[1], vocab_size=101,
        tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope(partial_rotary_factor=0.5))),
    # gated attention in layer 1 by the interval, fused experts on disk
    "qwen3_5_moe_a": dict(family="qwen3_5_moe_text", disk=BF16, inside="qwen3_5_moe", fused=True,
                          config=Qwen3_5MoeTextConfig, args=dict(
        hidden_size=48, moe_intermediate_size=20, shared_expert_intermediate_size=28, num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, head_dim=16, num_experts=5, num_experts_per_tok=2,
        linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=10, linear_value_head_dim=12,
        linear_conv_kernel_dim=4, full_attention_interval=2, vocab_size=93, tie_word_embeddings=False,
        max_position_embeddings=128, rope_parameters=rope(
            1e7, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True))),
    # tied, biases on q/k/v/o, a quarter of each head rotated, which is the class's default
    "qwen3_5_moe_b": dict(family="qwen3_5_moe_text", disk=F16, config=Qwen3_5MoeTextConfig, args=dict(
        hidden_size=40, moe_intermediate_size=28, shared_expert_intermediate_size=20, num_hidden_layers=2,
        num_attention_heads=5, num_key_value_heads=5, head_dim=16, num_experts=6, num_experts_per_tok=3,
        attention_bias=True, linear_num_key_heads=3, linear_num_value_heads=3, linear_key_head_dim=8,
        linear_value_head_dim=6, linear_conv_kernel_dim=2, layer_types=["linear_attention", "full_attention"],
        vocab_size=89, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # short convolutions around attention, a dense layer, a selection bias, tied
    "lfm2_moe_a": dict(family="lfm2_moe", disk=BF16, config=Lfm2MoeConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, num_experts=5, num_experts_per_tok=2, num_dense_layers=1, conv_L_cache=3,
        layer_types=["conv", "full_attention", "conv"], vocab_size=97, tie_word_embeddings=True,
        max_position_embeddings=128, rope_parameters=rope(1e6))),
    # convolutions of four taps with biases, no selection bias, a factor on the weights, untied head
    "lfm2_moe_b": dict(family="lfm2_moe", disk=F16, fused=True, config=Lfm2MoeConfig, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=5, num_experts=6, num_experts_per_tok=3, num_dense_layers=0, conv_L_cache=4, conv_bias=True,
        use_expert_bias=False, norm_topk_prob=False, routed_scaling_factor=1.7, layer_types=["conv", "full_attention"],
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope())),
    # part of Gemma 4 like 26B-A4B: full layers 1 and 2 with other heads, whose keys are the values, capped logits
    "gemma4_a": dict(family="gemma4_text", disk=BF16, inside="gemma4", fused=True, config=Gemma4TextConfig, args=dict(
        hidden_size=48, intermediate_size=28, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=3, num_global_key_value_heads=2, head_dim=8, global_head_dim=16, attention_k_eq_v=True,
        enable_moe_block=True, num_experts=7, top_k_experts=3, hidden_size_per_layer_input=0, sliding_window=5,
        layer_types=["sliding_attention", "full_attention", "full_attention"], final_logit_softcapping=3.0,
        use_bidirectional_attention="vision", pad_token_id=0, vocab_size=94, tie_word_embeddings=True, max_position_embeddings=96)),
    # biases of attention, separate values, a factor of the full layers' rotation, untied head; sliding layers are the
    # class's default: all but the last
    "gemma4_b": dict(family="gemma4_text", disk=F16, fused=True, config=Gemma4TextConfig, absent=[
        "layer_types", "attention_k_eq_v", "final_logit_softcapping", "rms_norm_eps", "per_layer_config"],
                     instead=dict(global_head_dim=20), args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, head_dim=12, global_head_dim=20, attention_bias=True, enable_moe_block=True,
        num_experts=6, top_k_experts=2, hidden_size_per_layer_input=0, sliding_window=6, vocab_size=89,
        tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=dict(
            sliding_attention=rope(2e4),
            full_attention=rope(5e5, "proportional", partial_rotary_factor=0.35, factor=2.0)))),
    # DeepSeek-V3 as part of Kimi-K2.5, untied head
    "kimi_k25_a": dict(family="deepseek_v3", disk=BF16, inside="kimi_k25", config=DeepseekV3Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=7, num_experts_per_tok=3, n_group=1, topk_group=1, n_shared_experts=1,
        routed_scaling_factor=2.827, first_k_dense_replace=1, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, num_mtp_layers=0, rope_parameters=rope(50000.0, "yarn", factor=8.0, beta_fast=4.0,
            beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # the same with a head that the whole model ties, fused experts, groups and routing scale of the class
    "kimi_k25_b": dict(family="deepseek_v3", disk=F16, inside="kimi_k25", fused=True, config=DeepseekV3Config, absent=[
        "n_group", "routed_scaling_factor", "topk_group", "rope_parameters"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=16, num_experts_per_tok=3, first_k_dense_replace=1, vocab_size=86, tie_word_embeddings=True,
        max_position_embeddings=96, num_mtp_layers=0)),
    # sections of the rotation, dense layer 1, untied head
    "qwen3_vl_moe_a": dict(family="qwen3_vl_moe_text", disk=BF16, inside="qwen3_vl_moe", fused="transposed",
                           config=Qwen3VLMoeTextConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, num_experts=6, num_experts_per_tok=3, mlp_only_layers=[1], vocab_size=91,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(5e6, mrope_section=[2, 2, 2], mrope_interleaved=True))),
    # as saved by transformers 5, with square gate and up matrices; biases of attention, tied, base and top-k of the
    # class
    "qwen3_vl_moe_b": dict(family="qwen3_vl_moe_text", disk=F16, inside="qwen3_vl_moe", fused=True,
                           config=Qwen3VLMoeTextConfig, absent=[
        "num_experts_per_tok", "rope_parameters", "decoder_sparse_step", "mlp_only_layers", "num_key_value_heads",
        "rms_norm_eps"], args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=24, num_hidden_layers=2, num_attention_heads=16,
        num_experts=7, attention_bias=True, head_dim=6, vocab_size=88, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # chunks, alternating dense and MoE layers, temperature, part of the larger model
    "llama4_a": dict(family="llama4_text", disk=BF16, inside="llama4", fused=True, config=Llama4TextConfig, args=dict(
        hidden_size=48, intermediate_size=20, intermediate_size_mlp=36, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, num_local_experts=5, num_experts_per_tok=1, interleave_moe_layer_step=2,
        no_rope_layer_interval=3, attention_chunk_size=7, floor_scale=5, attn_scale=0.3, use_qk_norm=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(5e5))),
    # groups, dense layer 0, sections of the part of each head that rotates, biases of attention
    "glm4v_moe_a": dict(family="glm4v_moe_text", disk=BF16, inside="glm4v_moe", config=Glm4vMoeTextConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2,
        n_shared_experts=2, routed_scaling_factor=2.5, first_k_dense_replace=1, attention_bias=True, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1e6, partial_rotary_factor=0.5, mrope_section=[1, 1, 1]))),
    # experts fused and in each layer, no renormalisation, no biases, tied; the rotation is the class's
    "glm4v_moe_b": dict(family="glm4v_moe_text", disk=F16, inside="glm4v_moe", fused=True, config=Glm4vMoeTextConfig,
                        absent=["n_group", "topk_group", "n_shared_experts", "routed_scaling_factor"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, n_routed_experts=6, num_experts_per_tok=2, norm_topk_prob=False,
        first_k_dense_replace=0, attention_bias=False, vocab_size=89, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope(partial_rotary_factor=0.5, mrope_section=[1, 1, 0]))),
    # dense layer 1 by the list of types, two shared experts, biases everywhere
    "hy_v3_a": dict(family="hy_v3", disk=BF16, config=HYV3Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, num_experts=7, num_experts_per_tok=3, num_shared_experts=2,
        router_scaling_factor=1.7, mlp_layer_types=["sparse", "dense", "sparse"], attention_bias=True, mlp_bias=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(1e6))),
    # experts fused, tied; base, scale and the dense layer 0 are the class's defaults
    "hy_v3_b": dict(family="hy_v3", disk=F16, fused=True, config=HYV3Config, absent=[
        "mlp_layer_types", "num_shared_experts", "rope_parameters", "router_scaling_factor", "rms_norm_eps"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, num_experts=6, num_experts_per_tok=2, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # groups, dense layer 0, layers 1 and 2 slide, biases of attention
    "dots1_a": dict(family="dots1", disk=BF16, config=Dots1Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2,
        n_shared_experts=2, routed_scaling_factor=2.5, norm_topk_prob=True, first_k_dense_replace=1,
        sliding_window=7, max_window_layers=1, attention_bias=True, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope(1e6))),
    # experts fused and in each layer, no renormalisation, tied; windows, groups and scale are the class's defaults
    "dots1_b": dict(family="dots1", disk=F16, fused=True, config=Dots1Config, absent=[
        "first_k_dense_replace", "layer_types", "max_window_layers", "n_group", "norm_topk_prob", "rope_parameters",
        "routed_scaling_factor", "sliding_window", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, n_routed_experts=6, num_experts_per_tok=2, n_shared_experts=1, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # groups, two shared experts, biases of attention
    "solar_open_a": dict(family="solar_open", disk=BF16, config=SolarOpenConfig, args=dict(
        hidden_size=48, moe_intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=2.5, attention_bias=True, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope(1e4))),
    # experts fused, no renormalisation, tied; base and routing are the class's defaults
    "solar_open_b": dict(family="solar_open", disk=F16, fused=True, config=SolarOpenConfig, absent=[
        "n_group", "n_shared_experts", "rope_parameters", "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        head_dim=8, n_routed_experts=6, num_experts_per_tok=2, norm_topk_prob=False, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # groups, dense layer 0, YaRN; the indexer chooses every token of a context of 40
    "deepseek_v32_a": dict(family="deepseek_v32", disk=BF16, config=DeepseekV32Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=1,
        routed_scaling_factor=2.5, first_k_dense_replace=1, index_topk=40, index_head_dim=8, index_n_heads=3,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # experts fused, dense layer 1 by the list of types, biases of attention, tied; groups and scale of the class
    "deepseek_v32_b": dict(family="deepseek_v32", disk=F16, fused=True, config=DeepseekV32Config, absent=[
        "index_topk", "layer_types", "n_group", "rope_parameters", "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=12, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=4, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=16, num_experts_per_tok=3, mlp_layer_types=["sparse", "dense", "sparse"], index_head_dim=8,
        index_n_heads=2, attention_bias=True, vocab_size=86, tie_word_embeddings=True, max_position_embeddings=96)),
    # groups; layers that reuse the indexer's choice of the previous layer, which is every token of a context of 40
    "glm_moe_dsa_a": dict(family="glm_moe_dsa", disk=BF16, config=GlmMoeDsaConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=1.5, first_k_dense_replace=1, index_topk=40, index_head_dim=8, index_n_heads=3,
        indexer_types=["full", "shared", "full"], vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope(1e6))),
    # experts fused, no renormalisation, biases of attention, tied; groups, scale and base of the class
    "glm_moe_dsa_b": dict(family="glm_moe_dsa", disk=F16, fused=True, config=GlmMoeDsaConfig, absent=[
        "index_topk", "indexer_types", "layer_types", "n_group", "n_shared_experts", "rope_parameters",
        "routed_scaling_factor", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=5, q_lora_rank=18, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        n_routed_experts=6, num_experts_per_tok=2, norm_topk_prob=False, mlp_layer_types=["sparse", "sparse"],
        index_head_dim=8, index_n_heads=2, attention_bias=True, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # dense layer 0, an indexer in all other layers; it chooses ten blocks of four: every token of a context of 40
    "minimax_m3_a": dict(family="minimax_m3_vl_text", disk=BF16, inside="minimax_m3_vl", config=MiniMaxM3VLTextConfig,
                         args=dict(
        hidden_size=48, dense_intermediate_size=40, intermediate_size=20, shared_intermediate_size=28,
        num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_local_experts=7,
        num_experts_per_tok=3, routed_scaling_factor=1.7, swiglu_alpha=1.3, swiglu_limit=4.0,
        mlp_layer_types=["dense", "sparse", "sparse"],
        layer_types=["full_attention", "minimax_m3_sparse", "minimax_m3_sparse"], index_n_heads=2, index_head_dim=8,
        index_block_size=4, index_topk_blocks=10, vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(5e6, partial_rotary_factor=0.5))),
    # the text model alone, all joinable tensors joined, dense layer 1 by the list of types, no indexer, tied; base and
    # share of the rotation, scale and clamp are the class's defaults
    "minimax_m3_b": dict(family="minimax_m3_vl_text", disk=F16, fused=True, config=MiniMaxM3VLTextConfig, absent=[
        "index_block_size", "index_topk_blocks", "layer_types", "rope_parameters", "routed_scaling_factor",
        "rms_norm_eps", "swiglu_alpha", "swiglu_limit", "num_key_value_heads", "num_experts_per_tok"], args=dict(
        hidden_size=40, dense_intermediate_size=36, intermediate_size=28, shared_intermediate_size=20,
        num_hidden_layers=3, num_attention_heads=8, head_dim=10, num_local_experts=6,
        mlp_layer_types=["sparse", "dense", "sparse"], vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96)),
    # experts for images next to the experts for text, dense layer 1 by the list of types, biases, an untied head
    "ernie4_5_vl_moe_a": dict(family="ernie4_5_vl_moe_text", disk=BF16, inside="ernie4_5_vl_moe",
                              config=Ernie4_5_VLMoeTextConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=[20, 12], num_hidden_layers=3,
        num_attention_heads=6, num_key_value_heads=2, moe_num_experts=5, moe_k=2, moe_num_shared_experts=1,
        mlp_layer_types=["sparse", "dense", "sparse"], use_bias=True, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(1e4, mrope_section=[1, 1, 2]))),
    # as saved by transformers 5, tied; base, choice, shared experts and the dense layer 0 are the class's defaults
    "ernie4_5_vl_moe_b": dict(family="ernie4_5_vl_moe_text", disk=F16, inside="ernie4_5_vl_moe", fused=True,
                              config=Ernie4_5_VLMoeTextConfig, absent=[
        "hidden_act", "mlp_layer_types", "moe_k", "moe_norm_min", "moe_num_shared_experts", "num_key_value_heads",
        "rms_norm_eps", "use_bias"], args=dict(
        hidden_size=64, intermediate_size=36, moe_intermediate_size=[12, 8], num_hidden_layers=2,
        num_attention_heads=8, moe_num_experts=9, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope(5e5, mrope_section=[1, 1, 2]))),
}
