#!/usr/bin/env python3
"""Make the golden results that the C++ tests compare with.

The reference is the real transformers implementation, run in float32 with eager
attention on exactly the weights that lie on disk. For each case the script writes

    tests/golden/<case>/golden.json          what was run, digests, greedy tokens
    tests/golden/<case>/golden.safetensors   the intermediate values, F32 and I32

and, except for tinymoe and tinytagger (whose models are in models/), a tiny random checkpoint next
to them: config.json and *.safetensors.

Tensors are named <step>.<what>. Steps are `prefill` (T tokens at once) and `decode0` to
`decode3` (one token each, on transformers' cache):

    tokens I32 [T]            embed [T,d] (as layer 0 gets it;     logits [T,V]
                              zaya: the rows of the embedding)
    Lnn.attn_out [T,d]        hidden state after attention, residual included
    Lnn.ffn_out [T,d]         layer output, residual included
    Lnn.router_logits [T,E]   Lnn.router_scores [T,E] (softmax or sigmoid over all experts)
    Lnn.experts I32 [T,k]     Lnn.weights [T,k] (as multiplied into the expert outputs)
    Lnn.choice_scores [T,E]   what experts are chosen by, where these are not the logits: score
                              and correction bias, -10000 in the groups that cannot be chosen
    Lnn.router_state [T,r]    zaya: what the router hands to that of the next layer

A model that reads a text as a whole and labels its tokens has one step, of fewer tokens; its logits
are those of the labels, and it has neither decode steps nor caches nor greedy text.

The router tensors exist for the MoE layers only. `Lnn.k_cache` and `Lnn.v_cache`
[K,S,h], without a step, hold every row that was handed to the cache (keys after norm and
rotation), also those that a sliding layer has dropped by then. Latent attention has the latent
there, and the keys and values of each head in `Lnn.k_heads` and `Lnn.v_heads`. zaya has E + 1 logits,
of which the last is chosen with weight 0, and `Lnn.history` [S,C]: the projected queries, keys and
delayed values (these without bias) of every token.

    pip install torch==2.13.0        # first: this pin gives a CPU build
    pip install transformers safetensors numpy xxhash
    scripts/make_golden.py [--family mixtral] [--case mixtral_a] [--out tests/golden]
"""

import argparse
import hashlib
import json
import math
import os
import platform
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
import xxhash
from safetensors import safe_open
from safetensors.numpy import save_file
from transformers import AutoModelForCausalLM, AutoModelForTokenClassification, DynamicCache
from transformers import DeepseekV2Config, DeepseekV3Config, Ernie4_5_MoeConfig, Glm4MoeConfig, GptOssConfig
from transformers import GraniteMoeConfig, GraniteMoeSharedConfig, HunYuanMoEV1Config, Llama4TextConfig
from transformers import MiniMaxM2Config, MixtralConfig, OlmoeConfig, OpenAIPrivacyFilterConfig, PhimoeConfig
from transformers import Qwen2MoeConfig, Qwen3MoeConfig, ZayaConfig

REPO = Path(__file__).resolve().parent.parent
FORMAT = "moec-golden/1"
PREFILL, DECODE = 24, 4
LABELLED = 15         # tokens of a text that is labelled
TOLERANCE = 1e-4      # decode steps against one pass over the whole sequence
ROUTER_GAP = 0.02     # smallest k-th to next router logit gap a family case may have

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def rope(theta=10000.0, kind="default", **rest):
    return {"rope_type": kind, "rope_theta": theta, **rest}


# What the reference's routers must agree with: the score of each expert, whether the weights of
# the chosen ones are divided by their sum (None: the config says it), what multiplies them.
# "selected" is a softmax over the chosen logits alone, "sigmoid" of those chosen by the logits has
# no other order, "mixer" is Phi's sparsemixer.
ROUTING = {
    "mixtral": dict(score="softmax", renorm=True),
    "qwen2_moe": dict(score="softmax", renorm=None),
    "qwen3_moe": dict(score="softmax", renorm=None),
    "olmoe": dict(score="softmax", renorm=None),
    "granitemoe": dict(score="selected"),
    "granitemoeshared": dict(score="selected"),
    "glm4_moe": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "minimax_m2": dict(score="sigmoid", renorm=True),
    "ernie4_5_moe": dict(score="softmax", renorm=True),
    "deepseek_v2": dict(score="softmax", renorm=False, scale="routed_scaling_factor", group_score="max"),
    "deepseek_v3": dict(score="sigmoid", renorm=None, scale="routed_scaling_factor"),
    "hunyuan_v1_moe": dict(score="softmax", renorm=True),
    "gpt_oss": dict(score="selected"),
    "phimoe": dict(score="mixer"),
    "llama4_text": dict(score="sigmoid", renorm=False),
    "openai_privacy_filter": dict(score="selected"),
    "zaya": dict(score="softmax", renorm=False),
}
TAGGERS = ("openai_privacy_filter",)  # families that label tokens
NOT_CHOSEN = -1e4  # the choice score of an expert whose group is not kept

# Sizes are odd on purpose; between them the two cases of a family cover what the family's
# configuration can switch. "disk": number format, "fused": keep [E,2f,d] on disk,
# "shards": number of weight files.
CASES = {
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
    # f32 on disk, q/k/v bias, no renormalisation
    "qwen2_moe_a": dict(family="qwen2_moe", disk=F32, config=Qwen2MoeConfig, args=dict(
        hidden_size=48, intermediate_size=44, moe_intermediate_size=20, shared_expert_intermediate_size=28,
        num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2, num_experts=5, num_experts_per_tok=3,
        norm_topk_prob=False, qkv_bias=True, vocab_size=97, tie_word_embeddings=False,
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
    # fused experts on disk, dense layer 1, biases on q/k/v/o, tied, no renormalisation
    "qwen3_moe_b": dict(family="qwen3_moe", disk=F16, fused=True, config=Qwen3MoeConfig, args=dict(
        hidden_size=60, intermediate_size=44, moe_intermediate_size=28, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=16, num_experts=5, num_experts_per_tok=2, norm_topk_prob=False,
        attention_bias=True, mlp_only_layers=[1], vocab_size=91, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope())),
    # clip_qkv that really clips
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
    # a head of its own, biases on q/k/v/o, no multipliers (the scores' factor is 1 then)
    "granitemoe_b": dict(family="granitemoe", disk=F16, config=GraniteMoeConfig, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5,
        num_local_experts=6, num_experts_per_tok=4, attention_bias=True, vocab_size=89, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope())),
    "granitemoeshared_a": dict(family="granitemoeshared", disk=BF16, config=GraniteMoeSharedConfig, args=dict(
        hidden_size=48, intermediate_size=20, shared_intermediate_size=36, num_hidden_layers=2,
        num_attention_heads=6, num_key_value_heads=3, num_local_experts=5, num_experts_per_tok=3,
        embedding_multiplier=6.0, logits_scaling=4.0, residual_multiplier=0.5, attention_multiplier=0.3,
        vocab_size=90, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # without the shared expert
    "granitemoeshared_b": dict(family="granitemoeshared", disk=F16, config=GraniteMoeSharedConfig, args=dict(
        hidden_size=40, intermediate_size=20, shared_intermediate_size=0, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2,
        embedding_multiplier=3.0, logits_scaling=2.0, residual_multiplier=0.7, attention_multiplier=0.2,
        vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
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
    # dense layer 0, two shared experts, tied
    "ernie4_5_moe_a": dict(family="ernie4_5_moe", disk=BF16, config=Ernie4_5_MoeConfig, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, moe_num_experts=6, moe_k=3, moe_num_shared_experts=2, moe_layer_start_index=1,
        vocab_size=90, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope(5e5))),
    # layers 0, 2 and 3 dense, no shared expert, a head of its own
    "ernie4_5_moe_b": dict(family="ernie4_5_moe", disk=F16, config=Ernie4_5_MoeConfig, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=4, num_attention_heads=5,
        num_key_value_heads=1, moe_num_experts=5, moe_k=2, moe_num_shared_experts=0, moe_layer_start_index=0,
        moe_layer_end_index=2, moe_layer_interval=2, vocab_size=87, tie_word_embeddings=False,
        max_position_embeddings=96, rope_parameters=rope())),
    # queries through a latent, groups by their best expert, dense layer 0, YaRN with both mscales
    "deepseek_v2_a": dict(family="deepseek_v2", disk=BF16, config=DeepseekV2Config, args=dict(
        hidden_size=48, intermediate_size=40, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6,
        q_lora_rank=20, kv_lora_rank=14, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=7, n_routed_experts=9,
        num_experts_per_tok=3, n_group=3, topk_group=2, topk_method="group_limited_greedy", n_shared_experts=2,
        routed_scaling_factor=4.0, first_k_dense_replace=1, vocab_size=90, tie_word_embeddings=False,
        max_position_embeddings=96,
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, mscale=0.707,
                             mscale_all_dim=0.9, original_max_position_embeddings=12))),
    # queries at once, greedy, no scaling of the rotation, fused experts on disk, tied
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
    # queries at once, one group, no renormalisation, fused experts on disk, tied
    "deepseek_v3_b": dict(family="deepseek_v3", disk=F16, fused=True, config=DeepseekV3Config, args=dict(
        hidden_size=40, intermediate_size=36, moe_intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=5, q_lora_rank=None, kv_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=4, v_head_dim=8,
        n_routed_experts=6, num_experts_per_tok=2, n_group=1, topk_group=1, n_shared_experts=1, routed_scaling_factor=1.0,
        norm_topk_prob=False, first_k_dense_replace=0, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96, num_mtp_layers=0, rope_parameters=rope())),
    # base stretched by alpha, tied
    "hunyuan_v1_moe_a": dict(family="hunyuan_v1_moe", disk=BF16, config=HunYuanMoEV1Config, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_experts=5, moe_topk=2, vocab_size=90, tie_word_embeddings=True,
        max_position_embeddings=96, rope_parameters=rope(10000.0, "dynamic", alpha=50.0, factor=1.0))),
    # fused experts on disk, biases on q/k/v/o, a head of its own
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
    # as many experts' channels as hidden ones, no window, no bias of attention, tied
    "gpt_oss_b": dict(family="gpt_oss", disk=F16, fused=True, config=GptOssConfig, args=dict(
        hidden_size=40, intermediate_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        head_dim=8, num_local_experts=4, num_experts_per_tok=3, sliding_window=128,
        layer_types=["full_attention", "full_attention"], attention_bias=False, vocab_size=87,
        tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # a text beyond the original positions, a mixer that mixes, biases everywhere
    "phimoe_a": dict(family="phimoe", disk=BF16, config=PhimoeConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=2, num_attention_heads=6, num_key_value_heads=2,
        num_local_experts=5, num_experts_per_tok=2, router_jitter_noise=0.3, attention_bias=True, lm_head_bias=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96,
        rope_parameters=rope(1000.0, "longrope", original_max_position_embeddings=12, short_mscale=1.1,
                             long_mscale=1.25, short_factor=[1.0, 1.0, 1.05, 1.1],
                             long_factor=[1.0, 1.5, 3.0, 8.0]))),
    # within the original positions, the mixer's own eps, no biases but the norms', window, fused experts, tied
    "phimoe_b": dict(family="phimoe", disk=F16, fused=True, config=PhimoeConfig, args=dict(
        hidden_size=40, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=1,
        num_local_experts=6, num_experts_per_tok=2, sliding_window=9, vocab_size=87, tie_word_embeddings=True,
        max_position_embeddings=96,
        rope_parameters=rope(1000.0, "longrope", original_max_position_embeddings=96, short_mscale=1.1,
                             long_mscale=1.25, short_factor=[1.0, 1.0, 1.05, 1.1],
                             long_factor=[1.0, 1.5, 3.0, 8.0]))),
    # chunks and full attention, dense and MoE layers in turn, temperature, L2 norms, llama3 scaling
    "llama4_text_a": dict(family="llama4_text", disk=BF16, fused=True, config=Llama4TextConfig, args=dict(
        hidden_size=48, intermediate_size=20, intermediate_size_mlp=36, num_hidden_layers=4, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, num_local_experts=5, num_experts_per_tok=1, interleave_moe_layer_step=2,
        no_rope_layer_interval=3, attention_chunk_size=7, floor_scale=5, attn_scale=0.3, use_qk_norm=True,
        vocab_size=90, tie_word_embeddings=False, max_position_embeddings=96, rope_parameters=rope(
            10000.0, "llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
            original_max_position_embeddings=32))),
    # two experts a token in each layer, no L2 norms, no temperature, biases of attention, tied
    "llama4_text_b": dict(family="llama4_text", disk=F16, fused=True, config=Llama4TextConfig, args=dict(
        hidden_size=40, intermediate_size=28, intermediate_size_mlp=36, num_hidden_layers=2, num_attention_heads=5,
        num_key_value_heads=1, head_dim=8, num_local_experts=6, num_experts_per_tok=2, no_rope_layers=[1, 0],
        attention_chunk_size=10, attn_temperature_tuning=False, use_qk_norm=False, attention_bias=True,
        vocab_size=87, tie_word_embeddings=True, max_position_embeddings=96, rope_parameters=rope())),
    # a state that crosses two edges, half of each head rotated, tied
    "zaya_a": dict(family="zaya", disk=BF16, fused=True, config=ZayaConfig, args=dict(
        hidden_size=48, moe_intermediate_size=20, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_experts=5, router_hidden_size=14, vocab_size=90, tie_word_embeddings=True,
        max_position_embeddings=96,
        rope_parameters={"hybrid": rope(5e6, partial_rotary_factor=0.5)})),
    # all layers slide, one head of keys, three taps and two, biases of attention and head, a head of its own
    "zaya_b": dict(family="zaya", disk=F16, fused=True, config=ZayaConfig, args=dict(
        hidden_size=40, moe_intermediate_size=40, num_hidden_layers=4, num_attention_heads=5, num_key_value_heads=1,
        head_dim=8, num_experts=4, router_hidden_size=10, sliding_window=9, layer_types=["hybrid_sliding"] * 4,
        cca_time0=3, attention_bias=True, lm_head_bias=True, vocab_size=87, tie_word_embeddings=False,
        max_position_embeddings=96,
        rope_parameters={"hybrid_sliding": rope(partial_rotary_factor=0.5)})),
}

def bioes(*classes):
    names = ["O", *(f"{tag}-{name}" for name in classes for tag in "BIES")]
    return dict(id2label=dict(enumerate(names)), label2id={name: i for i, name in enumerate(names)})


CASES |= {
    # three layers of a narrow band, YaRN without truncation, the release's biases everywhere
    "openai_privacy_filter_a": dict(family="openai_privacy_filter", disk=BF16, fused=True,
                                    config=OpenAIPrivacyFilterConfig, args=dict(
        hidden_size=48, intermediate_size=20, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2,
        head_dim=12, num_local_experts=5, num_experts_per_tok=2, sliding_window=3, vocab_size=90,
        max_position_embeddings=96, **bioes("private_person", "secret"),
        rope_parameters=rope(1000.0, "yarn", factor=8.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
                             original_max_position_embeddings=12))),
    # as many experts' channels as hidden ones, three experts a token, no bias of attention
    "openai_privacy_filter_b": dict(family="openai_privacy_filter", disk=F16, fused=True,
                                    config=OpenAIPrivacyFilterConfig, args=dict(
        hidden_size=40, intermediate_size=40, num_hidden_layers=2, num_attention_heads=5, num_key_value_heads=5,
        head_dim=8, num_local_experts=6, num_experts_per_tok=3, sliding_window=5, attention_bias=False,
        vocab_size=87, max_position_embeddings=96, **bioes("private_date"), rope_parameters=rope())),
}

TINYMOE_PROMPTS = [  # 32 bytes each
    'def read(self, size=-1):\n    """',
    "for name in sorted(self.names):\n",
    "if not isinstance(value, str):\n ",
    "Return the number of bytes that ",
    "The default value of the option ",
    "This function is used to set the",
    "class Handler(object):\n    def _",
    "try:\n    import os\nexcept Import",
    "See the documentation of the mod",
    '{"id": 4711, "name": "ada", "ema',
    "    raise ValueError('invalid ar",
    "    return self._get(name, None)",
    '[1, 2], "ok": true}\n{"order": 52',
    "12 + 7 = 19\n30 - 4 = 26\n5 * 11 =",
    "def main():\n    parser = argpars",
    '        if self._closed:\n       ',
    "import sys\nimport os\n\n__all__ = ",
    '    """Return a new dictionary w',
    '{"point": {"x": 12, "y": -7}, "t',
    '{"id": 20613, "name": "grace", "',
    '{"order": 871, "items": [{"sku":',
    "8 * 7 = 56\n100 - 58 = 42\n9 / 2 =",
    "35 < 81\n(20 + 22) + 5 = 42 + 5 =",
    "The second argument is the name ",
    "    for key, value in self.items",
    "        return isinstance(other,",
    "If the argument is not given, th",
    "from collections import namedtup",
    '"ok": true}\n{"event": "stop", "t',
    'class Error(Exception):\n    """B',
    "self.assertEqual(a, b)\n\n    def ",
    'with open(path, "rb") as stream:',
]


# ------------------------------------------------------------ checkpoints ----

def randomise(model, seed):
    """Weights with a spread that makes routers decide and outputs move; seeded."""
    g = torch.Generator().manual_seed(seed)
    tied = model.config.tie_word_embeddings
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=g)
            if name.endswith(("e_score_correction_bias", "sinks")):
                p.copy_(0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.3 * noise)
            elif "norm" in name or name.endswith(("states_scale", "residual_scale")):
                p.copy_(1 + 0.2 * noise)
            elif "embed_tokens" in name:
                p.copy_((0.4 if tied else 1.0) * noise)
            elif re.search(r"(mlp\.gate|gate\.wg|router)\.weight$", name):
                p.copy_(noise * 1.6 / math.sqrt(p.shape[-1]))
            elif name.endswith("router_mlp.out_proj.weight"):
                # what it reads is positive in the mean: without their own mean rows do not choose by that
                p.copy_((noise - noise.mean(-1, keepdim=True)) * 4.0 / math.sqrt(p.shape[-1]))
            elif "conv_qk" in name:
                p.copy_(noise * 1.3 / math.sqrt(p[0].numel()))
            elif hasattr(model.config, "swiglu_limit") and name.endswith("gate_up_proj"):
                p.copy_(noise * 5.0 / math.sqrt(p.shape[-2]))  # some beyond the limit; [E, in, out]
            elif model.config.model_type == "llama4_text" and ".experts." in name:
                p.copy_(noise * 1.3 / math.sqrt(p.shape[-2]))  # [E, in, out]
            else:  # a linear map, or all experts' maps: the last axis is the input
                p.copy_(noise * 1.3 / math.sqrt(p.shape[-1]))
        for name, b in sorted(model.named_buffers()):
            if biases_choice(name):
                b.copy_(0.2 * torch.randn(b.shape, generator=g))


def biases_choice(name):
    return name.endswith(("e_score_correction_bias", "balancing_biases"))


def kept_wide(name, family):
    """Tensors that stay F32 in the files, as in the releases."""
    return biases_choice(name) or family in TAGGERS and name.endswith("sinks")


def auto_class(family):
    return AutoModelForTokenClassification if family in TAGGERS else AutoModelForCausalLM


def write_checkpoint(case, spec, folder):
    args = dict(bos_token_id=None, eos_token_id=None, pad_token_id=None, **spec["args"])
    family = spec["family"]
    model = auto_class(family).from_config(spec["config"](**args))
    randomise(model, int.from_bytes(hashlib.sha256(case.encode()).digest()[:4], "big"))
    for name, t in [*model.named_parameters(), *model.named_buffers()]:
        t.data = t.data.to(F32 if kept_wide(name, family) else spec["disk"])
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    options = {}
    if spec.get("fused"):
        options["save_original_format"] = False
    if spec.get("shards"):
        options["max_shard_size"] = int(size * 1.1 / spec["shards"])
    model.save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)

    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == spec.get("shards", 1), files
    names = []
    for f in files:
        with safe_open(f, "pt") as st:
            for n in st.keys():
                names.append(n)
                assert st.get_tensor(n).dtype == (F32 if kept_wide(n, family) else spec["disk"]), n
    fused = any(n.endswith("experts.gate_up_proj") for n in names)
    assert fused == bool(spec.get("fused")), (case, "expert layout on disk")
    head = "score.weight" if family in TAGGERS else "lm_head.weight"
    assert (head in names) != args.get("tie_word_embeddings", False), (case, "head on disk")


# -------------------------------------------------------------- reference ----

class RecordingCache(DynamicCache):
    """transformers' cache that also keeps every row it was given."""

    def __init__(self, config):
        super().__init__(config=config)
        self.rows = {}

    def update(self, key_states, value_states, layer_idx, *args, **kwargs):
        self.rows.setdefault(layer_idx, []).append((key_states.detach().clone(), value_states.detach().clone()))
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def all_rows(self, layer):
        k, v = (torch.cat(part, dim=-2)[0] for part in zip(*self.rows[layer]))
        kept = self.layers[layer].keys[0]  # what the cache itself still holds
        assert torch.equal(k[:, k.shape[1] - kept.shape[1]:], kept)
        return k, v


class Capture:
    """Forward hooks on the real modules; `take` returns what the last pass produced."""

    def __init__(self, model):
        self.seen, self.histories = {}, {}
        self.config = model.config
        self.routing = ROUTING[model.config.model_type]
        self.k = model.config.num_experts_per_tok
        base = model.model

        def keep(name):
            def hook(_module, _args, out):
                self.seen[name] = (out[0] if isinstance(out, tuple) else out).detach().clone()
            return hook

        def keep_input(name):
            def hook(_module, args):
                self.seen[name] = args[0].detach().clone()
            return hook

        def keep_history(layer):
            def hook(module, args):
                x = args[0][0]
                delayed = torch.nn.functional.linear(x, module.v_proj_delayed.weight)
                rows = torch.cat([module.q_proj(x), module.k_proj(x), delayed], dim=-1)
                self.histories.setdefault(layer, []).append(rows)
            return hook

        def keep_router(name):
            def hook(_module, _args, out):
                if len(out) == 2:  # llama4: 0 where not chosen
                    weights, logits = out
                    weights, experts = weights.topk(self.k, dim=-1)
                elif len(out) == 4:  # zaya: where the null slot is chosen, weight 0 of expert 0
                    logits, weights, experts, state = out
                    experts = experts.masked_fill(weights == 0, self.config.num_experts)
                    self.seen[name + "router_state"] = state.detach().clone()
                else:
                    logits, weights, experts = out
                self.seen[name + "router_logits"] = logits.detach().clone()
                if self.config.model_type == "openai_privacy_filter":
                    weights = weights * self.k  # divided there, and multiplied back behind the experts
                self.seen[name + "weights"] = weights.detach().clone()
                self.seen[name + "experts"] = experts.detach().clone()
            return hook

        if self.config.model_type == "zaya":
            base.embed_tokens.register_forward_hook(keep("embed"))
        else:
            base.layers[0].register_forward_pre_hook(keep_input("embed"))
        self.moe_layers, self.choice_biases = [], {}
        for i, layer in enumerate(base.layers):
            layer.post_attention_layernorm.register_forward_pre_hook(keep_input(f"L{i:02}.attn_out"))
            layer.register_forward_hook(keep(f"L{i:02}.ffn_out"))
            if hasattr(layer.self_attn, "qkv_proj"):
                layer.self_attn.qkv_proj.register_forward_pre_hook(keep_history(i))
            block = next(getattr(layer, name) for name in ("block_sparse_moe", "mlp", "feed_forward")
                         if hasattr(layer, name))
            if not hasattr(block, "experts"):
                continue
            self.moe_layers.append(i)
            router = block.router if hasattr(block, "router") else block.gate
            router.register_forward_hook(keep_router(f"L{i:02}."))
            for name, t in [*block.named_parameters(), *block.named_buffers()]:
                if biases_choice(name):
                    assert t.abs().min() > 0, "a correction bias without effect"
                    self.choice_biases[i] = t.detach().reshape(-1)

    def take(self, logits):
        out = {n: t.squeeze(0) if t.dim() == 3 else t for n, t in self.seen.items()}
        self.seen = {}
        out["logits"] = logits[0].detach().clone()
        for i in self.moe_layers:
            p = f"L{i:02}."
            logits = out[p + "router_logits"]
            scores = logits.sigmoid() if self.routing["score"] == "sigmoid" else logits.softmax(-1)
            out[p + "router_scores"] = scores
            if i in self.choice_biases or (getattr(self.config, "n_group", 1) or 1) > 1:
                out[p + "choice_scores"] = self.choice_scores(scores, self.choice_biases.get(i))
            self.check_routing(out, p)
        return out

    def choice_scores(self, scores, bias):
        """The biased scores; far down in the groups that are not among the kept ones."""
        choice = scores if bias is None else scores + bias
        groups, kept = getattr(self.config, "n_group", 1), getattr(self.config, "topk_group", 1)
        by_group = choice.unflatten(-1, (groups, -1))
        best_of = 1 if self.routing.get("group_score") == "max" else min(2, by_group.shape[-1])
        best = by_group.topk(best_of, dim=-1).values.sum(-1)
        open_groups = torch.zeros_like(best).scatter(-1, best.topk(kept, dim=-1).indices, 1)
        return by_group.masked_fill(open_groups[..., None] == 0, NOT_CHOSEN).flatten(-2)

    def check_routing(self, out, p):
        """The reference's choice and weights are what ROUTING says."""
        experts = out[p + "experts"]
        assert experts.shape[-1] == self.k
        wanted = choice_of(out, p).topk(self.k, dim=-1).indices
        assert torch.equal(wanted.sort(-1).values, experts.sort(-1).values), "chosen experts"
        if self.routing["score"] == "mixer":
            weights = mixer_weights(out[p + "router_logits"], experts, self.config.router_jitter_noise)
        elif self.routing["score"] == "selected":
            weights = out[p + "router_logits"].gather(-1, experts).softmax(-1)
        else:
            weights = out[p + "router_scores"].gather(-1, experts)
            renorm = self.routing["renorm"]
            if self.config.norm_topk_prob if renorm is None else renorm:
                weights = weights / weights.sum(-1, keepdim=True)
            weights = weights * getattr(self.config, self.routing.get("scale", ""), 1.0)
            if self.config.model_type == "zaya":
                weights = weights.masked_fill(experts == self.config.num_experts, 0)
        assert torch.allclose(weights, out[p + "weights"], atol=1e-6), "router weights"


def mixer_reach(logits, experts, eps):
    """For each pick [T,k,E]: how far each logit lies inside what counts as near it, in units of the
    larger magnitude; experts picked before it are infinitely far outside."""
    reach = []
    left = logits.clone()
    for i in range(experts.shape[-1]):
        top = left.gather(-1, experts[:, i:i + 1])
        behind = (top - logits) / torch.maximum(logits.abs(), top)
        reach.append((2 * eps - behind).masked_fill(left == -math.inf, -math.inf))
        left = left.scatter(-1, experts[:, i:i + 1], -math.inf)
    return torch.stack(reach, dim=1)


def mixer_weights(logits, experts, eps):
    near = mixer_reach(logits, experts, eps) >= 0
    shares = logits[:, None].expand_as(near).masked_fill(~near, -math.inf).softmax(-1)
    return shares.gather(-1, experts[..., None])[..., 0]


def mixer_gap(steps, config):
    """Smallest distance of a logit from where it begins to count in the mixer."""
    if ROUTING[config.model_type]["score"] != "mixer":
        return math.inf
    gap = math.inf
    for step in steps:
        for name in step:
            if name.endswith("router_logits"):
                experts = step[name.replace("router_logits", "experts")]
                gap = min(gap, mixer_reach(step[name], experts, config.router_jitter_noise).abs().min().item())
    return gap


def choice_of(step, layer_prefix):
    """What the experts of a layer are chosen by: biased scores, or else the logits."""
    return step.get(layer_prefix + "choice_scores", step[layer_prefix + "router_logits"])


def choices(steps):
    for step in steps:
        for name in step:
            if name.endswith("router_logits"):
                yield choice_of(step, name.removesuffix("router_logits"))


def router_gap(steps, k):
    """Smallest gap between what the k-th and the next expert are chosen by."""
    gap = math.inf
    for t in choices(steps):
        top = t.topk(k + 1, dim=-1).values
        gap = min(gap, (top[:, k - 1] - top[:, k]).min().item())
    return gap


def order_gap(steps, k):
    """Smallest gap between neighbours among the chosen experts."""
    gap = math.inf
    for t in choices(steps):
        if k == 1:
            break
        top = t.topk(k, dim=-1).values
        gap = min(gap, (top[:, :-1] - top[:, 1:]).min().item())
    return gap


def in_pairs(config, rotated):
    """Rotated position dims in pairs (2i, 2i + 1), as the shards hold them."""
    if config.model_type == "deepseek_v2":
        return rotated
    return rotated.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)  # there the pairs' halves lie apart


def latent_caches(config, attention, latent, rotated):
    """The rows of latent attention as the shards hold them, position dims first: the latent once for
    all heads, and the keys and values of each head, as the reference expands them."""
    keys, values = (t[0] for t in attention.expand_kv(latent[None], rotated[None]))
    content, of_heads = keys.split([config.qk_nope_head_dim, config.qk_rope_head_dim], dim=-1)
    return {
        "k_cache": torch.cat([in_pairs(config, rotated), latent], -1),
        "v_cache": latent,
        "k_heads": torch.cat([in_pairs(config, of_heads), content], -1),
        "v_heads": values,
    }


@torch.no_grad()
def run_steps(model, prompt, decode):
    """Prefill and decode on the cache; compared with one pass over everything."""
    capture = model.moec_capture
    capture.histories.clear()
    cache = RecordingCache(model.config)
    steps, at = [], 0
    for tokens in [prompt, *[[t] for t in decode]]:
        ids = torch.tensor([tokens])
        out = model(ids, past_key_values=cache, use_cache=True, position_ids=torch.arange(at, at + len(tokens))[None])
        steps.append(capture.take(out.logits))
        steps[-1]["tokens"] = torch.tensor(tokens)
        at += len(tokens)
    caches = {f"L{layer:02}.history": torch.cat(rows) for layer, rows in capture.histories.items()}
    whole = capture.take(model(torch.tensor([prompt + decode]), use_cache=False).logits)
    worst = 0.0
    for name, full in whole.items():
        parts = torch.cat([s[name] for s in steps])
        if name.endswith("experts"):
            assert torch.equal(parts, full), name
        else:
            worst = max(worst, (parts - full).abs().max().item())
    assert worst < TOLERANCE, f"decode and full pass differ by {worst}"
    for layer in range(model.config.num_hidden_layers):
        k, v = cache.all_rows(layer)
        assert k.shape[1] == at
        attention = model.model.layers[layer].self_attn
        named = {"k_cache": k, "v_cache": v}
        if hasattr(attention, "expand_kv"):
            named = latent_caches(model.config, attention, k, v)
        caches.update({f"L{layer:02}.{name}": rows for name, rows in named.items()})
    return steps, caches, worst


@torch.no_grad()
def label_step(model, tokens):
    """The only step of a model that labels tokens."""
    step = model.moec_capture.take(model(torch.tensor([tokens])).logits)
    step["tokens"] = torch.tensor(tokens)
    return step


def label_gap(step, k):
    """The smallest gap of its routers, and of its labels by twice as much."""
    top = step["logits"].topk(2, dim=-1).values
    return min(router_gap([step], k), order_gap([step], k) * 4, (top[:, 0] - top[:, 1]).min().item() * 2)


def check_band(model, step):
    """Tokens beyond the bands of all layers do not change a label, the last one within does."""
    tokens = step["tokens"].tolist()
    reach = model.config.sliding_window * model.config.num_hidden_layers
    assert reach + 1 < len(tokens), "the text is within the band"
    within, less = (label_step(model, tokens[:count])["logits"][0] for count in (reach + 1, reach))
    assert torch.allclose(within, step["logits"][0], atol=1e-5), "the band is wider than it says"
    assert not torch.allclose(less, step["logits"][0], atol=1e-5), "the band is narrower than it says"


@torch.no_grad()
def greedy(model, prompt, count):
    """transformers' generate, and the smallest top-1 to top-2 logit gap along the way."""
    ids = torch.tensor([prompt])
    got = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=count, min_new_tokens=count,
                         do_sample=False, eos_token_id=None, pad_token_id=0)
    tokens = got[0, len(prompt):].tolist()
    assert len(tokens) == count
    logits = model(torch.tensor([prompt + tokens]), use_cache=False).logits[0, len(prompt) - 1:-1]
    top = logits.topk(2, dim=-1)
    gap = (top.values[:, 0] - top.values[:, 1]).min().item()
    assert top.indices[:, 0].tolist() == tokens or gap < TOLERANCE
    return tokens, gap


# ---------------------------------------------------------------- writing ----

def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_golden(case, folder, checkpoint, model, steps, caches=None, written=None, worst=0.0):
    """`written`: the greedy prompt, its continuation and the smallest gap on the way."""
    k = model.config.num_experts_per_tok
    names = ["prefill", *[f"decode{i}" for i in range(len(steps) - 1)]]
    arrays, listed, at = {}, [], 0
    for name, step in zip(names, steps):
        count = len(step["tokens"])
        listed.append({"name": name, "position": at, "tokens": count})
        at += count
        for what, t in step.items():
            arrays[f"{name}.{what}"] = t
    arrays.update(caches or {})
    for name, t in arrays.items():
        a = np.ascontiguousarray(t.numpy().astype(np.float32 if t.is_floating_point() else np.int32))
        assert np.isfinite(a).all(), name
        arrays[name] = a
    save_file(arrays, folder / "golden.safetensors", metadata={"format": FORMAT})
    info = {
        "format": FORMAT,
        "case": case,
        "family": model.config.model_type,
        "checkpoint": "." if checkpoint == folder else os.path.relpath(checkpoint, REPO / "tests" / "golden" / case),
        "weights_sha256": {p.name: sha256(p) for p in sorted(checkpoint.glob("*.safetensors"))
                           if p.name != "golden.safetensors"},
        "config_sha256": sha256(checkpoint / "config.json"),
        # as the manifest of an export names its source
        "config_digest": xxhash.xxh3_128_hexdigest((checkpoint / "config.json").read_bytes()),
        "golden_sha256": sha256(folder / "golden.safetensors"),
        "made_with": {"torch": torch.__version__, "transformers": transformers.__version__,
                      "python": platform.python_version(), "script": "scripts/make_golden.py"},
        "steps": listed,
        "moe_layers": model.moec_capture.moe_layers,
        "min_router_gap": round(router_gap(steps, k), 6),
        "min_router_order_gap": round(order_gap(steps, k), 6) if k > 1 else None,
    }
    if written:
        prompt, tokens, gap = written
        info["decode_vs_full_max_abs"] = float(f"{worst:.3g}")
        info["greedy"] = {"prompt": prompt, "tokens": tokens, "min_gap": round(gap, 6)}
    text = json.dumps(info, indent=1)
    text = re.sub(r"\[[\d,\s]*\]", lambda m: re.sub(r"\s+", " ", m.group()).replace("[ ", "[").replace(" ]", "]"), text)
    (folder / "golden.json").write_text(text + "\n")
    total = sum(p.stat().st_size for p in folder.iterdir())
    print(f"{case}: {total / 1024:.0f} KiB, router gap {info['min_router_gap']}, order gap "
          f"{info['min_router_order_gap']}"
          + (f", greedy gap {info['greedy']['min_gap']}, decode vs full {worst:.2g}" if written else ""), flush=True)


def choose_factors(rotary):
    """transformers 5.23 multiplies Phi's cosines by long_mscale in long texts, but never uses
    long_factor: it does not pass on the length by which its own rope_init_fn chooses. The release's
    code and transformers 4 pass it on."""
    forward, init = rotary.forward, rotary.rope_init_fn

    def with_length(x, position_ids=None):
        rotary.rope_init_fn = lambda config: init(config, x.device, seq_len=int(position_ids.max()) + 1)
        return forward(x, position_ids)

    rotary.forward = with_length


def load_balancing_biases(model, checkpoint):
    """transformers 5.23 sets the null slot's bias to its initial -1 behind the loading, whatever the
    checkpoint says."""
    buffers = dict(model.named_buffers())
    for file in checkpoint.glob("model*.safetensors"):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():
                if name.endswith("balancing_biases"):
                    buffers[name].copy_(tensors.get_tensor(name))


def load(checkpoint):
    family = json.loads((checkpoint / "config.json").read_text())["model_type"]
    model = auto_class(family).from_pretrained(checkpoint, dtype=F32, attn_implementation="eager")
    model.config._experts_implementation = "eager"
    model.eval()
    assert all(p.dtype == F32 for p in model.parameters())
    if model.config.model_type == "phimoe":
        choose_factors(model.model.rotary_emb)
    if model.config.model_type == "zaya":
        load_balancing_biases(model, checkpoint)
    model.moec_capture = Capture(model)
    return model


def publish(staging, folder):
    """Replace the files of the case's folder by the new ones."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = {p.name for p in staging.iterdir()}
    for p in sorted(staging.iterdir()):
        os.chmod(p, 0o644)
        shutil.move(p, folder / p.name)
    for p in folder.iterdir():
        if p.name not in fresh and p.suffix in (".safetensors", ".json"):
            p.unlink()


def tagger_case(case, out):
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp) / case
        folder.mkdir()
        write_checkpoint(case, CASES[case], folder)
        model = load(folder)
        k, best = model.config.num_experts_per_tok, None
        for attempt in range(400):
            rng = np.random.default_rng([attempt, *case.encode()])
            step = label_step(model, rng.integers(0, model.config.vocab_size, LABELLED).tolist())
            gap = label_gap(step, k)
            if best is None or gap > best[0]:
                best = (gap, step)
            if gap >= ROUTER_GAP:
                break
        check_band(model, best[1])
        write_golden(case, folder, folder, model, [best[1]])
        publish(folder, out / case)


def family_case(case, out):
    spec = CASES[case]
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp) / case
        folder.mkdir()
        write_checkpoint(case, spec, folder)
        model = load(folder)
        vocab, k = model.config.vocab_size, model.config.num_experts_per_tok
        best = None
        for attempt in range(400):  # the first tokens whose routers never nearly tie
            rng = np.random.default_rng([attempt, *case.encode()])
            ids = rng.integers(0, vocab, PREFILL + DECODE).tolist()
            prompt, decode = ids[:PREFILL], ids[PREFILL:]
            steps, caches, worst = run_steps(model, prompt, decode)
            gap = min(router_gap(steps, k), order_gap(steps, k) * 4, mixer_gap(steps, model.config) * 4)
            if best is not None and gap <= best[0]:
                continue
            tokens, token_gap = greedy(model, prompt, 8)
            gap = min(gap, token_gap * 2)
            if best is None or gap > best[0]:
                best = (gap, prompt, steps, caches, worst, tokens, token_gap)
            if gap >= ROUTER_GAP:
                break
        _, prompt, steps, caches, worst, tokens, token_gap = best
        if spec["args"].get("clip_qkv"):
            reach = max(c.abs().max().item() for n, c in caches.items() if n.endswith("v_cache"))
            assert reach == spec["args"]["clip_qkv"], "clip_qkv has no effect"
        if spec["family"] == "zaya":
            chosen = torch.cat([t for step in steps for n, t in step.items() if n.endswith("experts")])
            assert 0 < (chosen == model.config.num_experts).sum() < len(chosen) / 2, "null slot"
        write_golden(case, folder, folder, model, steps, caches, (prompt, tokens, token_gap), worst)
        publish(folder, out / case)


def tinymoe_case(out):
    case, checkpoint = "tinymoe", REPO / "models" / "tinymoe"
    model = load(checkpoint)
    best = None
    for text in TINYMOE_PROMPTS:
        prompt = list(text.encode())
        assert len(prompt) == 32, (text, len(prompt))
        tokens, gap = greedy(model, prompt, 64)
        steps, caches, worst = run_steps(model, prompt, tokens[:DECODE])
        # no near-ties on the greedy path and in the routers; then the most varied continuation
        k = model.config.num_experts_per_tok
        clear = min(1.0, gap / 0.03, router_gap(steps, k) / 0.002, order_gap(steps, k) / 0.002)
        merit = (clear, len(set(tokens)), gap)
        if best is None or merit > best[0]:
            best = (merit, gap, prompt, tokens, steps, caches, worst)
    _, gap, prompt, tokens, steps, caches, worst = best
    assert gap > 1e-2, f"every prompt's greedy path nearly ties: {gap}"
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp) / case
        folder.mkdir()
        write_golden(case, folder, checkpoint, model, steps, caches, (prompt, tokens, gap), worst)
        print("  prompt", repr(bytes(prompt)), "continues", repr(bytes(tokens)))
        publish(folder, out / case)


def tinytagger_case(out):
    """The part of its held-out texts whose routers decide most clearly."""
    case, checkpoint = "tinytagger", REPO / "models" / "tinytagger"
    model = load(checkpoint)
    k = model.config.num_experts_per_tok
    texts = [each["text"].encode() for each in json.loads((checkpoint / "heldout.json").read_text())["texts"]]
    parts = [list(text[at:at + LABELLED]) for text in texts for at in range(0, len(text) - LABELLED, LABELLED)]
    step = max((label_step(model, part) for part in parts), key=lambda step: label_gap(step, k))
    with tempfile.TemporaryDirectory() as tmp:
        folder = Path(tmp) / case
        folder.mkdir()
        write_golden(case, folder, checkpoint, model, [step])
        print("  text", repr(bytes(step["tokens"].tolist())))
        publish(folder, out / case)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--family", help="only the random checkpoints of one family: "
                    + ", ".join(sorted({s["family"] for s in CASES.values()})))
    ap.add_argument("--case", choices=["tinymoe", "tinytagger", *CASES], help="only this case")
    ap.add_argument("--out", type=Path, default=REPO / "tests" / "golden")
    args = ap.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # one order of summation
    for case, spec in CASES.items():
        if args.case in (None, case) and args.family in (None, spec["family"]):
            (tagger_case if spec["family"] in TAGGERS else family_case)(case, args.out)
    if args.case == "tinymoe" or (args.case is None and args.family is None):
        tinymoe_case(args.out)
    if args.case == "tinytagger" or (args.case is None and args.family is None):
        tinytagger_case(args.out)


if __name__ == "__main__":
    main()
