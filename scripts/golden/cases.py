"""Random checkpoints of the goldens: two or more per family, some of them quantized.

They have a few hundred kilobytes. Sizes are deliberately unusual, so that no two axes can be confused. The cases of a
family together cover the options of its configuration. Entries of a case: "family" is the model_type; "config" and
"args" make the configuration; "disk" is the number format of the files; "fused" stores the experts as [E,2f,d] or, if
it is "transposed", as [E,d,2f], and "released" if the release does so, too; "shards" is the number of weight files; "quantization" is the config's
quantization_config; "mtp" makes the last layer predict an additional token; "own_head" stores a head that differs from
the embedding although the config ties them; "inside" is the model_type of the larger model that contains this model;
"absent" lists keys to omit from config.json because their values are the class's defaults; "instead" has equivalent
keys for some omitted keys.
"""

from transformers import DeepseekV2Config, DeepseekV3Config, Ernie4_5_MoeConfig, Glm4MoeConfig, GptOssConfig
from transformers import GraniteMoeConfig, GraniteMoeSharedConfig, HunYuanMoEV1Config, Llama4TextConfig
from transformers import MiniMaxM2Config, MixtralConfig, OlmoeConfig, OpenAIPrivacyFilterConfig, PhimoeConfig
from transformers import Qwen2MoeConfig, Qwen3MoeConfig, ZayaConfig

from golden.case_parts import BF16, F16, F32, bioes, rope
from golden.dense_cases import DENSE
from golden.delta_cases import DELTA
from golden.later_cases import LATER
from golden.recent_cases import RECENT
from golden.state_space_cases import STATE_SPACE

INT4 = dict(
    config_groups=dict(group_0=dict(
        input_activations=None, output_activations=None, targets=["Linear"],
        weights=dict(actorder=None, block_structure=None, dynamic=False, group_size=32, num_bits=4, observer="minmax",
                     observer_kwargs={}, strategy="group", symmetric=True, type="int"))),
    format="pack-quantized", global_compression_ratio=None, kv_cache_scheme=None, quant_method="compressed-tensors",
    quantization_status="compressed",
    ignore=["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"])

CASES = {
    **RECENT,
    **LATER,
    **STATE_SPACE,
    **DENSE,
    **DELTA,
    # sliding window shorter than the sequence
    "mixtral_a": dict(family="mixtral", disk=BF16, config=MixtralConfig, args=dict(
        hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_local_experts=5, num_experts_per_tok=2, vocab_size=96, tie_word_embeddings=False, sliding_window=7,
        max_position_embeddings=128, rope_parameters=rope(1e6))),
    # fused experts on disk, tied head
    "mixtral_b": dict(family="mixtral", disk=F16, fused=True, config=MixtralConfig, args=dict(
        hidden_size=60, intermediate_size=36, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_local_experts=6, num_experts_per_tok=3, vocab_size=101, tie_word_embeddings=True, sliding_window=None,
        max_position_embeddings=96, rms_norm_eps=1e-6, rope_parameters=rope())),
    # an untied head although the config ties it, omitted keys with the class's defaults
    "mixtral_c": dict(family="mixtral", disk=BF16, config=MixtralConfig, own_head=True, absent=[
        "head_dim", "hidden_act", "num_experts_per_tok", "num_key_value_heads", "num_local_experts", "rms_norm_eps",
        "rope_parameters", "sliding_window"], args=dict(
        hidden_size=48, intermediate_size=16, num_hidden_layers=2, num_attention_heads=8, vocab_size=93,
        tie_word_embeddings=True, max_position_embeddings=96)),
    # f32 on disk, q/k/v bias, no renormalisation, layer 0 slides
    "qwen2_moe_a": dict(family="qwen2_moe", disk=F32, config=Qwen2MoeConfig, args=dict(
        hidden_size=48, intermediate_size=44, moe_intermediate_size=20, shared_expert_intermediate_size=28,
        num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, num_experts=5, num_experts_per_tok=3,
        norm_topk_prob=False, qkv_bias=True, use_sliding_window=True, sliding_window=7, vocab_size=97, tie_word_embeddings=False,
        max_position_embeddings=128, rope_parameters=rope(1e6))),
    # dense layers 0 and 2, renormalised, tied, llama3 frequency scaling
    "qwen2_moe_b": dict(family="qwen2_moe", disk=BF16, config=Qwen2MoeConfig, args=dict(
        hidden_size=60, intermediate_size=44, moe_intermediate_size=28, shared_expert_intermediate_size=36,
        num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, num_experts=6, num_experts_per_tok=2,
        norm_topk_prob=True, qkv_bias=False, decoder_sparse_step=2, vocab_size=90, tie_word_embeddings=True,
        max_position_embeddings=128, rope_parameters=rope(
            10000.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32))),
    # head_dim 12 where d/H is 8, two weight files, YaRN
    "qwen3_moe_a": dict(family="qwen3_moe", disk=BF16, shards=2, config=Qwen3MoeConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=24, num_hidden_layers=2, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, num_experts=6, num_experts_per_tok=3, norm_topk_prob=True,
        attention_bias=False, vocab_size=100, tie_word_embeddings=False, max_position_embeddings=128,
        rope_parameters=rope(500000.0, "yarn", factor=4.0, original_max_position_embeddings=32,
                             beta_fast=32.0, beta_slow=1.0))),
    # fused experts on disk, dense layer 1, all layers slide, biases on q/k/v/o, tied, no renormalisation
    "qwen3_moe_b": dict(family="qwen3_moe", disk=F16, fused=True, config=Qwen3MoeConfig, args=dict(
        hidden_size=60, intermediate_size=44, moe_intermediate_size=28, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=16, num_experts=5, num_experts_per_tok=2, norm_topk_prob=False,
        attention_bias=True, mlp_only_layers=[1], use_sliding_window=True, sliding_window=7, vocab_size=91,
        tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # clip_qkv with an effect
    "olmoe_a": dict(family="olmoe", disk=BF16, config=OlmoeConfig, args=dict(
        hidden_size=48, intermediate_size=32, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_experts=5, num_experts_per_tok=2, norm_topk_prob=False, clip_qkv=1.5, attention_bias=False,
        vocab_size=96, tie_word_embeddings=False, max_position_embeddings=128, rope_parameters=rope())),
    # as many key heads as query heads, biases on q/k/v/o, renormalised, tied, linear rope scaling
    "olmoe_b": dict(family="olmoe", disk=F16, config=OlmoeConfig, args=dict(
        hidden_size=60, intermediate_size=28, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=6,
        num_experts=6, num_experts_per_tok=3, norm_topk_prob=True, attention_bias=True, vocab_size=103,
        tie_word_embeddings=True, max_position_embeddings=128, rope_parameters=rope(10000.0, "linear", factor=2.0))),
    # tied, all four multipliers
    "granitemoe_a": dict(family="granitemoe", disk=BF16, config=GraniteMoeConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_local_experts=5, num_experts_per_tok=2, embedding_multiplier=12.0, logits_scaling=6.0,
        residual_multiplier=0.22, attention_multiplier=0.25, vocab_size=95, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope())),
    # untied head, biases on q/k/v/o, no multipliers (so the scores' factor is 1)
    "granitemoe_b": dict(family="granitemoe", disk=F16, config=GraniteMoeConfig, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5,
        num_local_experts=6, num_experts_per_tok=4, attention_bias=True, vocab_size=89, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope())),
    "granitemoeshared_a": dict(family="granitemoeshared", disk=BF16, config=GraniteMoeSharedConfig, args=dict(
        hidden_size=48, intermediate_size=20, shared_intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=3, num_local_experts=5, num_experts_per_tok=3,
        embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.5, attention_multiplier=0.3,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope())),
    # without the shared expert, biases on q/k/v/o
    "granitemoeshared_b": dict(family="granitemoeshared", disk=F16, config=GraniteMoeSharedConfig, args=dict(
        hidden_size=40, intermediate_size=20, shared_intermediate_size=0, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.7, attention_multiplier=0.2,
        attention_bias=True, vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96,
        rope_parameters=rope())),
    # dense layer 0, groups, QK-norm, biases on q/k/v, two shared experts
    "glm4_moe_a": dict(family="glm4_moe", disk=BF16, config=Glm4MoeConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=12, n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2,
        n_shared_experts=2, routed_scaling_factor=2.5, norm_topk_prob=True, first_k_dense_replace=1,
        use_qk_norm=True, attention_bias=True, partial_rotary_factor=0.5, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, num_mtp_layers=0, rope_parameters=rope(1e6, partial_rotary_factor=0.5))),
    # no dense layer, one group, no QK-norm, fused experts on disk, no renormalisation, tied
    "glm4_moe_b": dict(family="glm4_moe", disk=F16, fused=True, config=Glm4MoeConfig, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=16, n_routed_experts=6, num_experts_per_tok=2, n_group=1, topk_group=1,
        n_shared_experts=1, routed_scaling_factor=1.0, norm_topk_prob=False, first_k_dense_replace=0,
        use_qk_norm=False, attention_bias=False, partial_rotary_factor=0.25, vocab_size=89, tie_word_embeddings=True,
        max_position_embeddings=96, num_mtp_layers=0, rope_parameters=rope(partial_rotary_factor=0.25))),
    # half of each head rotated
    "minimax_m2_a": dict(family="minimax_m2", disk=BF16, config=MiniMaxM2Config, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_local_experts=6, num_experts_per_tok=3, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope(5e6, partial_rotary_factor=0.5))),
    # fused experts on disk, tied, all of each head rotated
    "minimax_m2_b": dict(family="minimax_m2", disk=F16, fused=True, config=MiniMaxM2Config, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        head_dim=8, num_local_experts=5, num_experts_per_tok=2, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope())),
    # dense layer 0, two shared experts, biases everywhere but in the routed experts, tied
    "ernie4_5_moe_a": dict(family="ernie4_5_moe", disk=BF16, config=Ernie4_5_MoeConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, moe_num_experts=6, moe_k=3, moe_num_shared_experts=2, moe_layer_start_index=1,
        use_bias=True,
        vocab_size=90, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope(5e5))),
    # layers 0, 2 and 3 dense, no shared expert, untied head
    "ernie4_5_moe_b": dict(family="ernie4_5_moe", disk=F16, config=Ernie4_5_MoeConfig, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=4, num_attention_heads=5,
        num_key_value_heads=1, moe_num_experts=5, moe_k=2, moe_num_shared_experts=0, moe_layer_start_index=0,
        moe_layer_end_index=2, moe_layer_interval=2, vocab_size=87, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope())),
    # queries through a latent, groups by their best expert, dense layer 0, YaRN with both mscales, all biases
    "deepseek_v2_a": dict(family="deepseek_v2", disk=BF16, config=DeepseekV2Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7, n_routed_experts=9,
        num_experts_per_tok=3, n_group=3, topk_group=2, topk_method="group_limited_greedy", n_shared_experts=2,
        routed_scaling_factor=4.0, first_k_dense_replace=1, attention_bias=True, mlp_bias=True, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=0.707,
                             mscale_all_dim=0.9, original_max_position_embeddings=12))),
    # queries without a latent, greedy, no scaling of the rotation, fused experts on disk, tied
    "deepseek_v2_b": dict(family="deepseek_v2", disk=F16, fused=True, config=DeepseekV2Config, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8, n_routed_experts=6,
        num_experts_per_tok=2, topk_method="greedy", n_shared_experts=1, routed_scaling_factor=1.0,
        first_k_dense_replace=0, vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96,
        rope_parameters=rope())),
    # groups by their two best experts, dense layer 0, YaRN
    "deepseek_v3_a": dict(family="deepseek_v3", disk=BF16, config=DeepseekV3Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=6, q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=1, routed_scaling_factor=2.5,
        norm_topk_prob=True, first_k_dense_replace=1, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96, num_mtp_layers=0,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                             mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # queries without a latent, halves rotated, biases of attention, one group, no renormalisation, fused experts on
    # disk, tied
    "deepseek_v3_b": dict(family="deepseek_v3", disk=F16, fused=True, config=DeepseekV3Config, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        n_routed_experts=6, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1, routed_scaling_factor=1.0,
        norm_topk_prob=False, first_k_dense_replace=0, attention_bias=True, rope_interleave=False, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96, num_mtp_layers=0, rope_parameters=rope())),
    # FP8 as in the release: partial blocks, a layer that predicts an additional token; groups, dense layer 0, YaRN
    "deepseek_v3_c": dict(
        family="deepseek_v3", disk=BF16, mtp=True, config=DeepseekV3Config,
        quantization=dict(activation_scheme="dynamic", fmt="e4m3", quant_method="fp8", weight_block_size=[8, 12]),
        args=dict(
            hidden_size=48, intermediate_size=72, moe_intermediate_size=24, num_hidden_layers=3, num_attention_heads=6,
            num_key_value_heads=6, q_lora_rank=24, kv_lora_rank=10, qk_nope_head_dim=10, qk_rope_head_dim=6,
            v_head_dim=6, n_routed_experts=8, num_experts_per_tok=3, n_group=4, topk_group=2, n_shared_experts=1,
            routed_scaling_factor=2.5, norm_topk_prob=True, first_k_dense_replace=1, vocab_size=91,
            tie_word_embeddings=False, max_position_embeddings=96, num_mtp_layers=0,
            rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=1.0,
                                 mscale_all_dim=1.0, original_max_position_embeddings=12))),
    # INT4 of routed experts only, as in Kimi-K2-Thinking, a V3 with other sizes; one group, no dense layer
    "deepseek_v3_d": dict(
        family="deepseek_v3", disk=BF16, config=DeepseekV3Config, quantization=INT4,
        args=dict(
            hidden_size=64, intermediate_size=72, moe_intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=4, q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6,
            v_head_dim=7, n_routed_experts=7, num_experts_per_tok=3, n_group=1, topk_group=1, n_shared_experts=1,
            routed_scaling_factor=2.827, norm_topk_prob=True, first_k_dense_replace=0, vocab_size=93,
            tie_word_embeddings=False, max_position_embeddings=96, num_mtp_layers=0, rope_parameters=rope(50000.0))),
    # groups, scale and the rest of the routing, rotation and biases are the class's defaults
    "deepseek_v3_e": dict(family="deepseek_v3", disk=BF16, config=DeepseekV3Config, absent=[
        "attention_bias", "hidden_act", "n_group", "n_shared_experts", "norm_topk_prob", "rms_norm_eps",
        "rope_interleave", "rope_parameters", "routed_scaling_factor", "tie_word_embeddings", "topk_group"], args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=12, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7,
        n_routed_experts=16, num_experts_per_tok=3, first_k_dense_replace=1, vocab_size=86,
        tie_word_embeddings=False, max_position_embeddings=96, num_mtp_layers=0)),
    # base scaled by alpha, tied
    "hunyuan_v1_moe_a": dict(family="hunyuan_v1_moe", disk=BF16, config=HunYuanMoEV1Config, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_experts=5, moe_topk=2, vocab_size=90, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope(10000.0, "dynamic", alpha=50.0, factor=1.0))),
    # fused experts on disk, biases on q/k/v/o, untied head
    "hunyuan_v1_moe_b": dict(family="hunyuan_v1_moe", disk=F16, fused=True, config=HunYuanMoEV1Config, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5,
        head_dim=8, num_experts=6, moe_topk=3, attention_bias=True, vocab_size=87, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope())),
    # two sliding layers around a full one, YaRN without truncation
    "gpt_oss_a": dict(family="gpt_oss", disk=BF16, fused=True, config=GptOssConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_local_experts=5, num_experts_per_tok=2, sliding_window=7, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
                             original_max_position_embeddings=12))),
    # expert width equal to the hidden size, no window, no bias of attention, a narrow and flat swiglu, tied
    "gpt_oss_b": dict(family="gpt_oss", disk=F16, fused=True, config=GptOssConfig, args=dict(
        hidden_size=40, intermediate_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        head_dim=8, num_local_experts=4, num_experts_per_tok=3, sliding_window=128,
        layer_types=["full_attention", "full_attention"], attention_bias=False, swiglu_limit=2.0,
        swiglu_alpha=1.2, vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # YaRN, window, sliding layers and clamp are the class's defaults; an untied head under a tied config
    "gpt_oss_d": dict(family="gpt_oss", disk=BF16, fused=True, config=GptOssConfig, own_head=True, absent=[
        "attention_bias", "layer_types", "max_position_embeddings", "num_experts_per_tok", "num_key_value_heads",
        "rms_norm_eps", "rope_parameters", "sliding_window", "swiglu_alpha", "swiglu_limit"], args=dict(
        hidden_size=40, intermediate_size=20, num_hidden_layers=2, num_attention_heads=8, head_dim=8,
        num_local_experts=5, vocab_size=89, tie_word_embeddings=True)),
    # MXFP4 as in the release; three blocks per row of the hidden size, two per row of the expert width
    "gpt_oss_c": dict(
        family="gpt_oss", disk=BF16, fused=True, config=GptOssConfig,
        quantization=dict(quant_method="mxfp4", modules_to_not_convert=[
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]),
        args=dict(
            hidden_size=96, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            head_dim=10, num_local_experts=5, num_experts_per_tok=2, sliding_window=9, vocab_size=91,
            tie_word_embeddings=False, max_position_embeddings=96,
            rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
                                 original_max_position_embeddings=12))),
    # a text beyond the original positions, a sparsemixer with an effect, all biases
    "phimoe_a": dict(family="phimoe", disk=BF16, config=PhimoeConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.3, attention_bias=True, lm_head_bias=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "longrope", original_max_position_embeddings=12, short_mscale=1.1,
                             long_mscale=1.25, short_factor=[1.0, 1.0, 1.05, 1.1],
                             long_factor=[1.0, 1.5, 3.0, 8.0]))),
    # within the original positions, the sparsemixer's eps, biases of norms only, window, fused experts, tied
    "phimoe_b": dict(family="phimoe", disk=F16, fused=True, config=PhimoeConfig, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        num_local_experts=6, num_experts_per_tok=2, sliding_window=9, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96,
        rope_parameters=rope(1000.0, "longrope", original_max_position_embeddings=96, short_mscale=1.1,
                             long_mscale=1.25, short_factor=[1.0, 1.0, 1.05, 1.1],
                             long_factor=[1.0, 1.5, 3.0, 8.0]))),
    # alternating chunked and full attention, dense and MoE layers, temperature, L2 norms, llama3 scaling
    "llama4_text_a": dict(family="llama4_text", disk=BF16, fused=True, config=Llama4TextConfig, args=dict(
        hidden_size=48, intermediate_size=20, intermediate_size_mlp=36, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, num_local_experts=5, num_experts_per_tok=1, interleave_moe_layer_step=2,
        no_rope_layer_interval=3, attention_chunk_size=7, floor_scale=5, attn_scale=0.3, use_qk_norm=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(
            10000.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32))),
    # two experts per token in each layer, no L2 norms, no temperature, biases of attention, tied
    "llama4_text_b": dict(family="llama4_text", disk=F16, fused=True, config=Llama4TextConfig, args=dict(
        hidden_size=40, intermediate_size=28, intermediate_size_mlp=36, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, num_local_experts=6, num_experts_per_tok=2, no_rope_layers=[1, 0],
        attention_chunk_size=10, attn_temperature_tuning=False, use_qk_norm=False, attention_bias=True,
        vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # untied head although the class ties by default; base and share of the rotation are the class's defaults
    "zaya_c": dict(family="zaya", disk=BF16, fused=True, config=ZayaConfig, own_head=True, absent=[
        "cca_time0", "cca_time1", "hidden_act", "layer_types", "num_experts_per_tok", "num_key_value_heads",
        "rms_norm_eps", "rope_parameters", "sliding_window", "tie_word_embeddings"], args=dict(
        hidden_size=40, moe_intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, head_dim=8,
        num_experts=4, router_hidden_size=10, vocab_size=88, tie_word_embeddings=True, max_position_embeddings=96)),
    # a state that crosses two edges, half of each head rotated, tied
    "zaya_a": dict(family="zaya", disk=BF16, fused=True, config=ZayaConfig, args=dict(
        hidden_size=48, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_experts=5, router_hidden_size=14, vocab_size=90, tie_word_embeddings=True,
        max_position_embeddings=96,
        rope_parameters={"hybrid": rope(5e6, partial_rotary_factor=0.5)})),
    # all layers slide, one key head, three taps and two, biases of attention and head, untied head
    "zaya_b": dict(family="zaya", disk=F16, fused=True, config=ZayaConfig, args=dict(
        hidden_size=40, moe_intermediate_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1,
        head_dim=8, num_experts=4, router_hidden_size=10, sliding_window=9, layer_types=["hybrid_sliding"] * 4,
        cca_time0=3, attention_bias=True, lm_head_bias=True, vocab_size=87, tie_word_embeddings=False,
        max_position_embeddings=96,
        rope_parameters={"hybrid_sliding": rope(partial_rotary_factor=0.5)})),
    # three layers with a narrow band, YaRN without truncation, all biases of the release
    "openai_privacy_filter_a": dict(family="openai_privacy_filter", disk=BF16, fused=True,
                                    config=OpenAIPrivacyFilterConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_local_experts=5, num_experts_per_tok=2, sliding_window=3, vocab_size=90,
        max_position_embeddings=96, **bioes("private_person", "secret"),
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
                             original_max_position_embeddings=12))),
    # YaRN, clamp and labels are the class's defaults
    "openai_privacy_filter_c": dict(family="openai_privacy_filter", disk=BF16, fused=True,
                                    config=OpenAIPrivacyFilterConfig, absent=[
        "attention_bias", "id2label", "label2id", "max_position_embeddings", "num_experts_per_tok",
        "num_key_value_heads", "rms_norm_eps", "rope_parameters", "swiglu_alpha", "swiglu_limit"], args=dict(
        hidden_size=40, intermediate_size=20, num_hidden_layers=2, num_attention_heads=4, head_dim=8, sliding_window=4,
        num_local_experts=6, vocab_size=85)),
    # expert width equal to the hidden size, three experts per token, no bias of attention, another swiglu
    "openai_privacy_filter_b": dict(family="openai_privacy_filter", disk=F16, fused=True,
                                    config=OpenAIPrivacyFilterConfig, args=dict(
        hidden_size=40, intermediate_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5,
        head_dim=8, num_local_experts=6, num_experts_per_tok=3, sliding_window=5, attention_bias=False,
        swiglu_limit=1.5, swiglu_alpha=2.0, vocab_size=87, max_position_embeddings=96, **bioes("private_date"),
        rope_parameters=rope())),
}
