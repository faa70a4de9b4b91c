// Experts in a latent space: tests the inputs of the maps around the experts, and that the bias of
// the output map is added once per layer. golden_values_test.cc compares the values.
#include <gmock/gmock.h>

#include "ir/verify/verify.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "models/shards/expert_views.h"
#include "models/shards/needed_tensors.h"
#include "tests/models/sample_model.h"
#include "tests/models/shards/shard_text.h"

namespace moec {
namespace {

// Experts of width 3, in a latent of width 6 and a residual stream of width 8.
ModelConfig model_with_latent(bool biased) {
  ModelConfig model = sample_model();
  model.moe.latent = 6;
  model.moe.shared_ff = 4;
  model.mlp.bias = biased;
  for (const char* role :
       {"latent_in", "latent_out", "latent_in_bias", "latent_out_bias", "gate_bias", "up_bias",
        "down_bias", "shared_gate_proj_bias", "shared_up_bias", "shared_down_bias"})
    model.names.by_role[role] = std::string("{i}.") + role;
  return model;
}

Plan planned(const ModelConfig& model, const BuildOptions& options) {
  auto plan = plan_model(model, declared_weights(model, DType::bf16), options);
  EXPECT_TRUE(plan.has_value()) << render(plan.error());
  return plan ? std::move(*plan) : Plan{};
}

Shard built(const Plan& plan, const std::string& name) {
  for (size_t i = 0; i < plan.shards.size(); ++i) {
    if (plan.shards[i].name != name) continue;
    auto shard = build_shard(plan, i, 4);
    EXPECT_TRUE(shard.has_value());
    EXPECT_EQ(render(verify(*shard)), "");
    return std::move(*shard);
  }
  ADD_FAILURE() << "no shard " << name;
  return {};
}

BuildOptions in_groups(int64_t experts) {
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = experts;
  return options;
}

template <class OpT>
const Op& only(const Shard& shard) {
  const Op* found = nullptr;
  for (const Op& op : shard.ops)
    if (std::holds_alternative<OpT>(op.data)) {
      EXPECT_EQ(found, nullptr);
      found = &op;
    }
  return *found;
}

std::string operand(const Shard& shard, const Op& op, size_t i) {
  return shard.label(op.operands[i]);
}

// Returns the op that produces the value with this name.
const Op& maker_of(const Shard& shard, const std::string& name) {
  for (const Op& op : shard.ops)
    if (!op.results.empty() && shard.label(op.results[0]) == name) return op;
  ADD_FAILURE() << "no value " << name;
  return shard.ops[OpId{0}];
}

TEST(ExpertLatent, WrapsOnlyTheRoutedExperts) {
  const Shard shard = built(planned(model_with_latent(false), sample_options()), "L01.moe");
  EXPECT_EQ(operand(shard, only<SoftMoe>(shard), 0), "latent_in");
  EXPECT_EQ(operand(shard, maker_of(shard, "latent_in"), 0), "ffn_norm");
  EXPECT_EQ(operand(shard, maker_of(shard, "router"), 0), "ffn_norm");
  EXPECT_EQ(operand(shard, only<GatedMlp>(shard), 0), "ffn_norm");
  EXPECT_EQ(operand(shard, maker_of(shard, "latent_out"), 0), "latent_sum");
  const Op& joined = maker_of(shard, "experts_and_shared");
  EXPECT_EQ(operand(shard, joined, 0), "latent_out");
  EXPECT_EQ(operand(shard, joined, 1), "shared_expert");
  const auto all = views(shard);
  EXPECT_EQ(all.at("latent_in.weight"), "@1.latent_in:bf16[6,8] | cast(f32)");
  EXPECT_EQ(all.at("latent_out.weight"), "@1.latent_out:bf16[8,6] | cast(f32)");
  EXPECT_EQ(all.at("experts.3.gate.weight"), "@1.3.expert_gate:bf16[3,6] | cast(f32)");
  EXPECT_EQ(all.at("experts.3.down.weight"), "@1.3.expert_down:bf16[6,3] | cast(f32)");
  EXPECT_EQ(all.at("shared_expert.up.weight"), "@1.shared_up:bf16[4,8] | cast(f32)");
}

TEST(ExpertLatent, AppliesToFusedExperts) {
  ModelConfig model = model_with_latent(false);
  model.names.by_role["experts_gate_up"] = "{i}.gate_up";
  model.names.by_role["experts_down"] = "{i}.down_all";
  const auto all = views(built(planned(model, sample_options()), "L01.moe"));
  EXPECT_EQ(all.at("experts.3.up.weight"),
            "@1.gate_up:bf16[5,6,6] | slice(0, 3, 1) | slice(1, 3, 3) | reshape(3, 6) | cast(f32)");
  EXPECT_EQ(all.at("experts.3.down.weight"),
            "@1.down_all:bf16[5,6,3] | slice(0, 3, 1) | reshape(6, 3) | cast(f32)");
}

// Returns the names of the shards of a plan that read a tensor.
std::vector<std::string> readers_of(const Plan& plan, const std::string& tensor) {
  std::vector<std::string> readers;
  for (const ShardDecl& decl : plan.shards)
    for (const auto& [name, view] : views(built(plan, decl.name)))
      if (view.starts_with("@" + tensor + ":")) readers.push_back(decl.name);
  return readers;
}

TEST(ExpertLatent, AddsTheBiasInOneShard) {
  using testing::ElementsAre;
  const ModelConfig model = model_with_latent(true);
  const Plan whole = planned(model, sample_options());
  EXPECT_THAT(readers_of(whole, "1.latent_out_bias"), ElementsAre("L01.moe"));

  const Plan groups = planned(model, in_groups(2));
  for (const char* each : {"1.latent_in", "1.latent_in_bias", "1.latent_out"})
    EXPECT_THAT(readers_of(groups, each), ElementsAre("L01.moe.g0", "L01.moe.g1", "L01.moe.g2"));
  EXPECT_THAT(readers_of(groups, "1.latent_out_bias"), ElementsAre("L01.moe.g0"));

  BuildOptions options = in_groups(2);
  options.slices.expert = 3;
  EXPECT_THAT(readers_of(planned(model, options), "1.latent_out_bias"),
              ElementsAre("L01.moe.g0.s0"));
  options.slices.shared = 2;
  EXPECT_THAT(readers_of(planned(model, options), "1.latent_out_bias"),
              ElementsAre("L01.shared.s0"));
  EXPECT_TRUE(readers_of(planned(model_with_latent(false), options), "1.latent_out_bias").empty());
}

// Only shards that add nothing but experts may be skipped; none of these shards has the bias.
TEST(ExpertLatent, OmitsTheBiasFromSkippableGroups) {
  BuildOptions apart = in_groups(2);
  apart.slices.shared = 1;
  for (const BuildOptions& options : {in_groups(2), apart}) {
    const Plan plan = planned(model_with_latent(true), options);
    size_t skipped = 0;
    for (const Step& step : plan.schedule) {
      if (step.skip_from.empty()) continue;
      ++skipped;
      EXPECT_EQ(views(built(plan, plan.shards[step.shard].name)).count("latent_out.bias"), 0u);
    }
    EXPECT_EQ(skipped, options.slices.shared > 0 ? 3u : 2u);
  }
}

}  // namespace
}  // namespace moec
