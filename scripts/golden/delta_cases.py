"""Random checkpoints of families with Kimi delta attention; cases.py describes the entries."""

from transformers import KimiLinearConfig

from golden.case_parts import BF16, F16

DELTA = {
    # the keys of the release: layers by numbers from 1, other names; groups, two shared experts
    "kimi_linear_a": dict(family="kimi_linear", disk=BF16, config=KimiLinearConfig, absent=[
        "layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim",
        "attention_bias", "q_lora_rank"], instead=dict(
        linear_attn_config=dict(full_attn_layers=[2], head_dim=12, kda_layers=[1, 3], num_heads=3,
                                short_conv_kernel_size=4),
        first_k_dense_replace=1, mla_use_nope=True, moe_router_activation_func="sigmoid", rope_theta=10000.0), args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=4, kv_lora_rank=20, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=14,
        linear_head_dim=12, linear_num_heads=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
        num_local_experts=9, num_experts_per_tok=3, n_group=3, topk_group=2, n_shared_experts=2,
        routed_scaling_factor=2.446, vocab_size=97, max_position_embeddings=128)),
    # as saved by transformers: joined convolutions of three taps, fused experts; a latent of the queries, biases, a
    # dense layer after an MoE layer, no renormalisation
    "kimi_linear_b": dict(family="kimi_linear", disk=F16, fused=True, config=KimiLinearConfig, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=4, num_attention_heads=3,
        num_key_value_heads=3, q_lora_rank=18, kv_lora_rank=14, qk_nope_head_dim=12, qk_rope_head_dim=7, v_head_dim=8,
        attention_bias=True, linear_head_dim=10, linear_num_heads=5, linear_conv_kernel_dim=3,
        layer_types=["full_attention", "linear_attention", "linear_attention", "full_attention"],
        mlp_layer_types=["sparse", "dense", "sparse", "sparse"], num_local_experts=6, num_experts_per_tok=2,
        norm_topk_prob=False, routed_scaling_factor=1.3, rms_norm_eps=1e-6, vocab_size=90,
        max_position_embeddings=96)),
}
