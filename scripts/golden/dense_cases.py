"""Random checkpoints of dense families, the baselines of MoE models; cases.py describes the entries."""

from transformers import LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

from golden.case_parts import BF16, F16, F32, rope

LLAMA3 = dict(factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32)

DENSE = {
    # biases of attention and MLPs, head_dim 12 where d/H is 8, grouped heads, llama3 frequency scaling, tied
    "llama_a": dict(family="llama", disk=BF16, config=LlamaConfig, args=dict(
        hidden_size=48, intermediate_size=44, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, attention_bias=True, mlp_bias=True, vocab_size=97, tie_word_embeddings=True,
        max_position_embeddings=128, rms_norm_eps=1e-5, rope_parameters=rope(500000.0, "llama3", **LLAMA3))),
    # as many key heads as query heads, linear rope scaling, another activation, untied head, no biases
    "llama_b": dict(family="llama", disk=F16, config=LlamaConfig, args=dict(
        hidden_size=40, intermediate_size=36, num_hidden_layers=3, num_attention_heads=5, vocab_size=89,
        hidden_act="gelu_pytorch_tanh", tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(10000.0, "linear", factor=2.0))),
    # the rotation of texts longer than any export supports; omitted keys with the class's defaults; two weight files
    "llama_c": dict(family="llama", disk=BF16, shards=2, config=LlamaConfig, absent=[
        "attention_bias", "head_dim", "hidden_act", "mlp_bias", "num_key_value_heads", "rms_norm_eps"], args=dict(
        hidden_size=48, intermediate_size=28, num_hidden_layers=2, num_attention_heads=6, vocab_size=95,
        tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(10000.0, "dynamic", factor=4.0))),
    # a window shorter than the sequence, head_dim 10 where d/H is 8, tied
    "mistral_a": dict(family="mistral", disk=BF16, config=MistralConfig, args=dict(
        hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=3,
        head_dim=10, sliding_window=7, vocab_size=96, tie_word_embeddings=True, max_position_embeddings=128,
        rope_parameters=rope(1e6))),
    # no window, YaRN, one key head, untied head, another activation
    "mistral_b": dict(family="mistral", disk=F16, config=MistralConfig, args=dict(
        hidden_size=40, intermediate_size=44, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1,
        hidden_act="gelu_pytorch_tanh", sliding_window=None, vocab_size=91, tie_word_embeddings=False,
        max_position_embeddings=128, rms_norm_eps=1e-5, rope_parameters=rope(
            10000.0, "yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0))),
    # f32 on disk, windows from layer 1 on without a list, untied head, YaRN without rounding of the range
    "qwen2_a": dict(family="qwen2", disk=F32, config=Qwen2Config, absent=["layer_types"], args=dict(
        hidden_size=48, intermediate_size=44, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        use_sliding_window=True, sliding_window=7, max_window_layers=1, vocab_size=97, tie_word_embeddings=False,
        max_position_embeddings=128, rope_parameters=rope(
            1e6, "yarn", factor=4.0, original_max_position_embeddings=32, truncate=False))),
    # sliding layers by the list of types, contradicting max_window_layers, as many key heads as query heads, tied
    "qwen2_b": dict(family="qwen2", disk=BF16, config=Qwen2Config, args=dict(
        hidden_size=60, intermediate_size=36, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=5,
        use_sliding_window=True, sliding_window=5, max_window_layers=3, vocab_size=90, tie_word_embeddings=True,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"], max_position_embeddings=96,
        rms_norm_eps=1e-5, rope_parameters=rope(10000.0, "linear", factor=2.0))),
    # no window although the keys of a window are set
    "qwen2_c": dict(family="qwen2", disk=BF16, config=Qwen2Config, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        use_sliding_window=False, sliding_window=4, max_window_layers=0, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope(1e6))),
    # biases of attention, head_dim 12 where d/H is 8, untied head, two weight files, YaRN
    "qwen3_a": dict(family="qwen3", disk=BF16, shards=2, config=Qwen3Config, args=dict(
        hidden_size=48, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, attention_bias=True, vocab_size=100, tie_word_embeddings=False, max_position_embeddings=128,
        rope_parameters=rope(500000.0, "yarn", factor=4.0, original_max_position_embeddings=32,
                             beta_fast=32.0, beta_slow=1.0))),
    # windows from layer 1 on without a list, head_dim 16, one key head, tied, no biases
    "qwen3_b": dict(family="qwen3", disk=F16, config=Qwen3Config, absent=["layer_types"], args=dict(
        hidden_size=60, intermediate_size=44, num_hidden_layers=3, num_attention_heads=5, num_key_value_heads=1,
        head_dim=16, use_sliding_window=True, sliding_window=7, max_window_layers=1, vocab_size=91,
        tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
}
