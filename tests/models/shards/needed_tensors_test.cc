#include "models/shards/needed_tensors.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "frontends/sources/hf/config.h"
#include "models/published/published.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::Not;
using testing::UnorderedElementsAre;

ModelConfig published(const char* name) {
  const auto model = find_published(name);
  return read_config((*model)->config, name)->model;
}

// Lists what a layer needs as "role [sizes]", with " x E" if each of E experts has its own tensor.
std::vector<std::string> roles_of(const ModelConfig& model, int64_t layer) {
  std::vector<std::string> roles;
  for (const NeededRole& needed : needed_roles(model))
    if (needed.layer == layer)
      roles.push_back(needed.role + " " + to_string(needed.dims) +
                      (needed.experts == 0 ? "" : fmt::format(" x {}", needed.experts)));
  return roles;
}

TEST(NeededTensors, ListsQwen3Moe) {
  const ModelConfig model = published("qwen3-30b-a3b");
  EXPECT_THAT(roles_of(model, -1),
              ElementsAre("embed [151936,2048]", "final_norm [2048]", "lm_head [151936,2048]"));
  const auto layer = UnorderedElementsAre(
      "attn_norm [2048]", "q [4096,2048]", "k [512,2048]", "v [512,2048]", "q_norm [128]",
      "k_norm [128]", "o [2048,4096]", "ffn_norm [2048]", "router [128,2048]",
      "expert_gate [768,2048] x 128", "expert_up [768,2048] x 128", "expert_down [2048,768] x 128");
  EXPECT_THAT(roles_of(model, 0), layer);
  EXPECT_THAT(roles_of(model, 47), layer);
}

TEST(NeededTensors, ListsDeepseekV3) {
  const ModelConfig model = published("deepseek-v3");
  EXPECT_THAT(roles_of(model, 0),
              UnorderedElementsAre("attn_norm [7168]", "q_a [1536,7168]", "q_a_norm [1536]",
                                   "q_b [24576,1536]", "kv_a [576,7168]", "kv_a_norm [512]",
                                   "kv_b [32768,512]", "o [7168,16384]", "ffn_norm [7168]",
                                   "gate [18432,7168]", "up [18432,7168]", "down [7168,18432]"));
  EXPECT_THAT(roles_of(model, 3),
              IsSupersetOf({"router [256,7168]", "router_choice_bias [256]",
                            "expert_gate [2048,7168] x 256", "shared_gate_proj [2048,7168]",
                            "shared_up [2048,7168]", "shared_down [7168,2048]"}));
}

TEST(NeededTensors, ListsGptOss) {
  const ModelConfig model = published("gpt-oss-20b");
  EXPECT_THAT(roles_of(model, 1),
              UnorderedElementsAre(
                  "attn_norm [2880]", "q [4096,2880]", "q_bias [4096]", "k [512,2880]",
                  "k_bias [512]", "v [512,2880]", "v_bias [512]", "sinks [64]", "o [2880,4096]",
                  "o_bias [2880]", "ffn_norm [2880]", "router [32,2880]", "router_bias [32]",
                  "experts_gate_up_in_out [32,2880,5760]", "experts_down_in_out [32,2880,2880]",
                  "experts_gate_up_bias [32,5760]", "experts_down_bias [32,2880]"));
}

// Only the first layer scales the embedding, and only that layer does not read a router state.
TEST(NeededTensors, ListsZayaLayerByLayer) {
  const ModelConfig model = published("zaya1-8b");
  EXPECT_THAT(roles_of(model, 0),
              IsSupersetOf({"embed_scale [2048]", "embed_bias [2048]", "channel_conv [1280,1,2]",
                            "head_conv [1280,128,2]", "k_temperature [2]"}));
  EXPECT_THAT(roles_of(model, 0), Not(Contains("router_state_scale [256]")));
  EXPECT_THAT(roles_of(model, 1), Contains("router_state_scale [256]"));
  EXPECT_THAT(roles_of(model, 1), Not(Contains("embed_scale [2048]")));
}

TEST(NeededTensors, SharesTheEmbeddingWithTheHead) {
  ModelConfig model = sample_model();
  model.head.tied = true;
  EXPECT_THAT(roles_of(model, -1), ElementsAre("embed [11,8]", "final_norm [8]"));
}

TEST(NeededTensors, ListsTensorsExpertByExpert) {
  std::vector<std::string> names;
  for (const NeededTensor& tensor : needed_tensors(sample_model()))
    if (tensor.role.starts_with("expert_")) names.push_back(tensor.name);
  ASSERT_EQ(names.size(), 15);
  EXPECT_THAT(
      std::vector(names.begin(), names.begin() + 4),
      ElementsAre("1.0.expert_gate", "1.0.expert_up", "1.0.expert_down", "1.1.expert_gate"));
  EXPECT_EQ(names.back(), "1.4.expert_down");
}

TEST(NeededTensors, CountsParametersOfEveryExpert) {
  int64_t elements = 0;
  for (const NeededTensor& tensor : needed_tensors(sample_model()))
    elements += Type{DType::f32, tensor.dims}.elements();
  EXPECT_EQ(parameter_count(sample_model()), elements);
}

TEST(NeededTensors, NamesMissingRoles) {
  ModelConfig model = sample_model();
  EXPECT_THAT(missing_roles(model), IsEmpty());
  model.names.by_role.erase("k_norm");
  model.names.by_role.erase("expert_up");
  EXPECT_THAT(missing_roles(model), ElementsAre("expert_up", "k_norm"));
}

}  // namespace
}  // namespace moec
