#include <gtest/gtest.h>

#include "models/plan/make_plan.h"
#include "models/shards/needed_tensors.h"

namespace moec {
namespace {

ModelConfig three_layers() {
  ModelConfig model;
  model.hidden = 8;
  model.vocab = 32;
  model.attention = {.heads = 2, .kv_heads = 1, .head_dim = 4, .value_dim = 4};
  model.attention.rope.dims = 4;
  model.moe.routing.top_k = 1;
  model.moe.experts = 2;
  model.moe.expert_ff = 16;
  model.layers = {{.moe = true}, {.moe = true}, {.moe = true}};
  for (const char* role : {"attn_norm", "ffn_norm", "q", "k", "v", "o", "router"})
    model.names.by_role[role] = std::string("layers.{i}.") + role;
  for (const char* role : {"expert_gate", "expert_up", "expert_down"})
    model.names.by_role[role] = std::string("layers.{i}.{e}.") + role;
  for (const char* role : {"embed", "final_norm", "lm_head"}) model.names.by_role[role] = role;
  return model;
}

TEST(FirstLayers, RemovesTensorsOfOtherLayers) {
  ModelConfig model = three_layers();
  WeightTable weights = declared_weights(model, DType::bf16);
  weights.tensors["something.else"] = weights.tensors.at("lm_head");
  ASSERT_TRUE(keep_first_layers(model, weights, 1).has_value());
  EXPECT_EQ(model.layers.size(), 1u);
  EXPECT_EQ(model.stored.left_out_layers, 2);
  const WeightTable wanted = declared_weights(model, DType::bf16);
  EXPECT_EQ(weights.tensors.size(), wanted.tensors.size() + 1);
  for (const auto& [name, tensor] : wanted.tensors) EXPECT_TRUE(weights.find(name)) << name;
  EXPECT_TRUE(weights.find("something.else"));  // unknown tensors stay and are reported as unused
}

TEST(FirstLayers, KeepsAllLayersUnchanged) {
  ModelConfig model = three_layers();
  WeightTable weights = declared_weights(model, DType::bf16);
  const size_t tensors = weights.tensors.size();
  ASSERT_TRUE(keep_first_layers(model, weights, 3).has_value());
  EXPECT_EQ(model.stored.left_out_layers, 0);
  EXPECT_EQ(weights.tensors.size(), tensors);
}

TEST(FirstLayers, RejectsCountsOutOfRange) {
  for (int64_t count : {-1, 0, 4}) {
    ModelConfig model = three_layers();
    WeightTable weights = declared_weights(model, DType::bf16);
    const Status status = keep_first_layers(model, weights, count);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error()[0].code, "model.layers_kept");
    EXPECT_EQ(model.layers.size(), 3u);
  }
}

}  // namespace
}  // namespace moec
