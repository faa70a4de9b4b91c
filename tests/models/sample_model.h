// A small model for tests without a checkpoint: two layers, the first dense.
#pragma once

#include "ir/model/model_config.h"
#include "ir/model/plan.h"

namespace moec {

inline ModelConfig sample_model() {
  ModelConfig model;
  model.family = "sample";
  model.hidden = 8;
  model.vocab = 11;
  model.max_positions = 64;
  model.norm.eps = 1e-6;
  model.mlp.ff = 12;
  AttentionConfig& attention = model.attention;
  attention.heads = 4;
  attention.kv_heads = 2;
  attention.head_dim = attention.value_dim = 6;
  attention.scale = 0.5;
  attention.qk_norm = QkNormWidth::per_head;
  attention.rope.dims = 6;
  model.moe.experts = 5;
  model.moe.expert_ff = 3;
  model.moe.routing.top_k = 2;
  model.moe.routing.renorm = Renorm::sum;
  model.layers = {{.moe = false}, {.moe = true, .window = 7}};
  for (const char* role : {"embed", "final_norm", "lm_head"}) model.names.by_role[role] = role;
  for (const char* role : {"attn_norm",
                           "ffn_norm",
                           "q",
                           "k",
                           "v",
                           "o",
                           "q_bias",
                           "k_bias",
                           "v_bias",
                           "o_bias",
                           "q_norm",
                           "k_norm",
                           "router",
                           "router_choice_bias",
                           "shared_gate_proj",
                           "shared_up",
                           "shared_down",
                           "shared_sigmoid_gate",
                           "gate",
                           "up",
                           "down"})
    model.names.by_role[role] = std::string("{i}.") + role;
  for (const char* role : {"expert_gate", "expert_up", "expert_down"})
    model.names.by_role[role] = std::string("{i}.{e}.") + role;
  return model;
}

inline BuildOptions sample_options() {
  BuildOptions options;
  options.tokens = {1, 4};
  options.context = 16;
  return options;
}

}  // namespace moec
