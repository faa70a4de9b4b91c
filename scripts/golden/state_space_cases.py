"""Random checkpoints of families with state spaces (Mamba-2); cases.py describes the entries."""

from transformers import GraniteMoeHybridConfig, NemotronHConfig

from golden.case_parts import BF16, F16, rope

STATE_SPACE = {
    # two groups of three heads, attention without rotation, tied, all multipliers
    "granitemoehybrid_a": dict(family="granitemoehybrid", disk=BF16, config=GraniteMoeHybridConfig, args=dict(
        hidden_size=48, intermediate_size=20, shared_intermediate_size=28, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, num_local_experts=5, num_experts_per_tok=2, mamba_n_heads=6, mamba_n_groups=2,
        mamba_d_state=10, mamba_d_conv=4, mamba_expand=2, mamba_d_head=16, mamba_conv_bias=True,
        layer_types=["linear_attention", "full_attention", "linear_attention"], embedding_multiplier=1.5,
        residual_multiplier=0.6, attention_multiplier=0.3, logits_scaling=2.0, rms_norm_eps=1e-5, vocab_size=97,
        tie_word_embeddings=True, max_position_embeddings=128)),
    # attention with rotation and biases, one group, a convolution of three taps without bias between maps with biases
    "granitemoehybrid_b": dict(family="granitemoehybrid", disk=F16, config=GraniteMoeHybridConfig, absent=[
        "mamba_d_head", "mamba_n_groups", "num_key_value_heads", "attention_multiplier", "logits_scaling",
        "time_step_limit"], args=dict(
        hidden_size=40, intermediate_size=28, shared_intermediate_size=36, num_hidden_layers=3, num_attention_heads=5,
        num_local_experts=6, num_experts_per_tok=3, mamba_n_heads=5, mamba_d_state=14, mamba_d_conv=3, mamba_expand=3,
        mamba_conv_bias=False, mamba_proj_bias=True, attention_bias=True, position_embedding_type="rope",
        layer_types=["full_attention", "linear_attention", "linear_attention"], vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(1e6))),
    # only a shared expert
    "granitemoehybrid_c": dict(family="granitemoehybrid", disk=BF16, config=GraniteMoeHybridConfig, args=dict(
        hidden_size=44, intermediate_size=20, shared_intermediate_size=36, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, num_local_experts=0, num_experts_per_tok=1, mamba_n_heads=4, mamba_d_state=12,
        mamba_d_conv=2, mamba_expand=2, layer_types=["linear_attention", "full_attention"], vocab_size=93, tie_word_embeddings=False, max_position_embeddings=96)),
    # all four kinds of layers, two groups of two heads, groups of experts
    "nemotron_h_a": dict(family="nemotron_h", disk=BF16, config=NemotronHConfig, args=dict(
        hidden_size=48, layers_block_type=["linear_attention", "moe", "full_attention", "mlp", "linear_attention"],
        num_attention_heads=6, num_key_value_heads=2, head_dim=10, intermediate_size=40, ssm_state_size=12,
        mamba_num_heads=4, mamba_head_dim=14, n_groups=2, conv_kernel=4, n_routed_experts=6,
        num_experts_per_tok=2, n_group=3, topk_group=2, moe_intermediate_size=20,
        moe_shared_expert_intermediate_size=28, routed_scaling_factor=2.5, vocab_size=97, tie_word_embeddings=False,
        max_position_embeddings=128)),
    # first and last layer MoE, one group, fused experts on disk, biases of MLPs and of the maps around a convolution
    # without bias, no renormalisation
    "nemotron_h_b": dict(family="nemotron_h", disk=F16, fused=True, config=NemotronHConfig, args=dict(
        hidden_size=40, layers_block_type=["moe", "full_attention", "mlp", "linear_attention", "linear_attention", "moe"],
        num_attention_heads=5, num_key_value_heads=5, head_dim=8, intermediate_size=36, mlp_bias=True,
        ssm_state_size=10, mamba_num_heads=3, mamba_head_dim=12, n_groups=1, conv_kernel=3, use_conv_bias=False,
        use_bias=True, n_routed_experts=5, num_experts_per_tok=3, moe_intermediate_size=28,
        moe_shared_expert_intermediate_size=20, norm_topk_prob=False, layer_norm_epsilon=1e-6, vocab_size=90,
        tie_word_embeddings=False, max_position_embeddings=96)),
    # experts in a latent with biased maps; two consecutive MoE layers, one of two groups is kept
    "nemotron_h_c": dict(family="nemotron_h", disk=BF16, config=NemotronHConfig, args=dict(
        hidden_size=44, layers_block_type=["linear_attention", "moe", "moe", "full_attention", "mlp"],
        num_attention_heads=4, num_key_value_heads=1, head_dim=14, intermediate_size=30, mlp_bias=True,
        ssm_state_size=9, mamba_num_heads=6, mamba_head_dim=8, n_groups=3, conv_kernel=2, n_routed_experts=8,
        num_experts_per_tok=3, n_group=2, topk_group=1, moe_intermediate_size=26, moe_latent_size=19,
        moe_shared_expert_intermediate_size=23, routed_scaling_factor=1.7, vocab_size=93, tie_word_embeddings=False,
        max_position_embeddings=112)),
}
