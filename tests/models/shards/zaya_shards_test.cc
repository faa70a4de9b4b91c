// Ports and weights of shards with convolved attention, a router that reads the previous router's
// state, a null slot, and affine residuals. golden_values_test.cc compares their values.
#include "ir/graph/port_names.h"
#include "ir/verify/verify.h"
#include "models/plan/plan_model.h"
#include "models/plan/plan_report.h"
#include "models/plan/shard_sizes.h"
#include "models/shards/build_shard.h"
#include "models/shards/check_model.h"
#include "models/shards/layer_ports.h"
#include "models/shards/needed_tensors.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"
#include "tests/models/shards/shard_text.h"

namespace moec {
namespace {

// Three layers of 4 query heads and 2 key heads of dimension 6, 5 experts and one null slot.
ModelConfig zaya_like() {
  ModelConfig model = sample_model();
  model.stream.residual = ResidualKind::affine;
  model.attention.convolved = ConvolvedConfig{2, 3};
  model.attention.qk_norm = QkNormWidth::l2_tempered;
  model.moe.router_hidden = 7;
  model.moe.null_slots = 1;
  model.moe.choice_bias = true;
  model.moe.routing = {.top_k = 1};
  LayerConfig layer;
  layer.moe = true;
  model.layers = {layer, layer, layer};
  model.layers[1].takes_router_state = model.layers[2].takes_router_state = true;
  for (const char* role : {"embed_scale", "embed_bias"}) model.names.by_role[role] = role;
  for (const char* role :
       {"v_current",          "v_delayed",         "v_current_bias",   "v_delayed_bias",
        "channel_conv",       "channel_conv_bias", "head_conv",        "head_conv_bias",
        "k_temperature",      "attn_part_scale",   "attn_part_bias",   "attn_residual_scale",
        "attn_residual_bias", "ffn_part_scale",    "ffn_part_bias",    "ffn_residual_scale",
        "ffn_residual_bias",  "router_down",       "router_down_bias", "router_state_scale",
        "router_norm",        "router_fc1",        "router_fc1_bias",  "router_fc2",
        "router_fc2_bias"})
    model.names.by_role[role] = std::string("{i}.") + role;
  return model;
}

Plan plan_of(const BuildOptions& options, const ModelConfig& model = zaya_like()) {
  auto plan = plan_model(model, declared_weights(model, DType::bf16), options);
  EXPECT_TRUE(plan.has_value()) << render(plan.error());
  return std::move(*plan);
}

Shard build(const std::string& name, const BuildOptions& options = sample_options(),
            const ModelConfig& model = zaya_like()) {
  const Plan plan = plan_of(options, model);
  for (size_t i = 0; i < plan.shards.size(); ++i)
    if (plan.shards[i].name == name) {
      Shard shard = build_shard(plan, i, 4).value();
      EXPECT_EQ(render(verify(shard)), "");
      return shard;
    }
  ADD_FAILURE() << "no shard " << name;
  return {};
}

std::vector<std::string> outputs(const Shard& shard) {
  std::vector<std::string> all;
  for (const Output& output : shard.outputs)
    all.push_back(output.name + " " + to_string(shard.type(output.value)));
  return all;
}

const Step& step_of(const Plan& plan, const std::string& shard) {
  for (const Step& step : plan.schedule)
    if (plan.shards[step.shard].name == shard) return step;
  ADD_FAILURE() << "no step of " << shard;
  return plan.schedule.front();
}

// 36 channels of queries and keys, 6 of delayed values; three earlier tokens.
TEST(ConvolvedAttention, ReadsHistoryWithEveryCacheForm) {
  for (CacheForm cache : {CacheForm::append, CacheForm::blend}) {
    BuildOptions options = sample_options();
    options.cache = cache;
    const Shard shard = build("L01.attn", options);
    EXPECT_THAT(input_texts(shard), testing::Contains("history f32[1,42,3,1]{channels}"));
    EXPECT_THAT(outputs(shard), testing::Contains("history_new f32[1,42,4,1]{channels}"));
    EXPECT_EQ(shard.states.size(), cache == CacheForm::blend ? 2u : 0u)
        << "devices take no third state";
    const Plan plan = plan_of(options);
    EXPECT_THAT(step_of(plan, "L01.attn").inputs,
                testing::Contains(InputBinding{kHistoryPort, SourceKind::history, {}, 0, 1}));
    EXPECT_THAT(step_of(plan, "L01.attn").outputs,
                testing::Contains(OutputBinding{kNewHistory, SinkKind::history_rows, {}, 1}));
  }
}

TEST(ConvolvedAttention, ConvolvesOverTokensInEveryLayout) {
  for (Layout layout : {Layout::channels, Layout::rows, Layout::bc1s}) {
    BuildOptions options = sample_options();
    options.layout = layout;
    std::vector<int64_t> groups;
    for (const Op& op : build("L00.attn", options).ops)
      if (const auto* conv = std::get_if<Conv>(&op.data)) groups.push_back(conv->groups);
    EXPECT_EQ(groups, (std::vector<int64_t>{36, 6, 6})) << layout_name(layout);
  }
  const auto weights = views(build("L00.attn"));
  EXPECT_EQ(weights.at("channel_conv.weight"),
            "@0.channel_conv:bf16[36,1,2] | reshape(36, 1, 2, 1) | cast(f32)");
  EXPECT_EQ(weights.at("head_conv.weight"),
            "@0.head_conv:bf16[36,6,3] | reshape(36, 6, 3, 1) | cast(f32)");
  EXPECT_EQ(weights.at("k_temperature"), "@0.k_temperature:bf16[2] | reshape(2, 1) | cast(f32)");
}

TEST(ConvolvedAttention, AddsBiasesOfTheProjections) {
  ModelConfig model = zaya_like();
  EXPECT_FALSE(views(build("L00.attn")).contains("v_delayed.bias"));
  model.attention.qkv_bias = true;
  const auto weights = views(build("L00.attn", sample_options(), model));
  EXPECT_TRUE(weights.contains("v_delayed.bias"));
  EXPECT_TRUE(weights.contains("v_current.bias"));
}

TEST(CarriedRouter, ForwardsItsStateToLaterLayers) {
  EXPECT_THAT(input_texts(build("L00.moe")), testing::ElementsAre("hidden f32[1,8,4,1]{channels}"));
  EXPECT_THAT(outputs(build("L00.moe")),
              testing::UnorderedElementsAre("moe_out f32[1,8,4,1]{channels}",
                                            "router_state f32[1,7,4,1]{channels}"));
  EXPECT_THAT(input_texts(build("L02.moe")),
              testing::ElementsAre("hidden f32[1,8,4,1]{channels}",
                                   "earlier_router_state f32[1,7,4,1]{channels}"));
  EXPECT_THAT(outputs(build("L02.moe")), testing::ElementsAre("moe_out f32[1,8,4,1]{channels}"))
      << "nobody takes the last one";
  const Plan plan = plan_of(sample_options());
  EXPECT_THAT(
      step_of(plan, "L01.moe").inputs,
      testing::Contains(InputBinding{kEarlierRouterState, SourceKind::edge, "L00.router_state"}));
  EXPECT_THAT(step_of(plan, "L01.moe").outputs,
              testing::Contains(OutputBinding{kRouterState, SinkKind::edge, "L01.router_state"}));
}

TEST(CarriedRouter, HasStatePortsInEveryCut) {
  BuildOptions options = sample_options();
  options.layers_per_shard = 2;
  EXPECT_THAT(outputs(build("L00.layers", options)),
              testing::Contains("router_state f32[1,7,4,1]{channels}"));
  EXPECT_THAT(input_texts(build("L02.layers", options)),
              testing::Contains("earlier_router_state f32[1,7,4,1]{channels}"));
  EXPECT_THAT(input_texts(build("L00.layers", options)),
              testing::IsSupersetOf(
                  {"history_L00 f32[1,42,3,1]{channels}", "history_L01 f32[1,42,3,1]{channels}"}));
  options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 3;
  EXPECT_THAT(outputs(build("L01.router", options)),
              testing::UnorderedElementsAre("routing_weights f32[1,5,4,1]{channels}",
                                            "router_state f32[1,7,4,1]{channels}"))
      << "without the null slot";
}

TEST(CarriedRouter, StoresARowPerNullSlot) {
  const auto weights = views(build("L01.moe"));
  EXPECT_EQ(weights.at("router.weight"), "@1.router:bf16[6,7] | cast(f32)");
  EXPECT_EQ(weights.at("router.choice_bias"), "@1.router_choice_bias:bf16[6] | cast(f32)");
  EXPECT_EQ(weights.at("router_state.scale"), "@1.router_state_scale:bf16[7] | cast(f32)");
  EXPECT_FALSE(views(build("L00.moe")).contains("router_state.scale"));
}

// The residual and the part's bias are added once, for any number of expert groups.
TEST(AffineResidual, IsAddedByTheFirstGroup) {
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 3;
  const auto first = views(build("L01.moe.g0", options)),
             second = views(build("L01.moe.g1", options));
  for (const char* name : {"ffn_residual.scale", "ffn_residual.bias", "ffn_part.bias"}) {
    EXPECT_TRUE(first.contains(name)) << name;
    EXPECT_FALSE(second.contains(name)) << name;
  }
  EXPECT_TRUE(first.contains("ffn_part.scale") && second.contains("ffn_part.scale"));
  const Plan plan = plan_of(options);
  EXPECT_EQ(step_of(plan, "L01.moe.g0").skip_from, "");
  EXPECT_EQ(step_of(plan, "L01.moe.g1").skip_from, "acc");
  EXPECT_EQ(chance_to_run(plan, step_of(plan, "L01.moe.g0").shard), 1);
  EXPECT_LT(chance_to_run(plan, step_of(plan, "L01.moe.g1").shard), 1);
}

TEST(AffineResidual, ScalesTheEmbeddingInLayer0) {
  EXPECT_EQ(views(build("L00.attn")).at("embed.scale"), "@embed_scale:bf16[8] | cast(f32)");
  EXPECT_FALSE(views(build("L01.attn")).contains("embed.scale"));
}

void expect_zaya_finding(const std::function<void(ModelConfig&)>& change, const std::string& code,
                         const std::string& part) {
  ModelConfig model = zaya_like();
  change(model);
  const Diagnostics findings = check_model(model);
  ASSERT_FALSE(findings.empty()) << "expected " << code;
  EXPECT_EQ(findings[0].code, code);
  EXPECT_THAT(findings[0].cause, testing::HasSubstr(part));
}

TEST(CheckModel, RejectsInvalidConvolutionsAndRouterStates) {
  EXPECT_EQ(render(check_model(zaya_like())), "");
  expect_zaya_finding(
      [](ModelConfig& m) {
        m.attention.convolved = ConvolvedConfig{1, 1};
      },
      "model.attention", "read no earlier token");
  expect_zaya_finding(
      [](ModelConfig& m) {
        m.attention.convolved = ConvolvedConfig{0, 2};
      },
      "model.size", "the taps per channel is 0");
  expect_zaya_finding([](ModelConfig& m) { m.attention.kv_heads = 1, m.attention.head_dim = 7; },
                      "model.attention", "the number of value channels is 7");
  expect_zaya_finding([](ModelConfig& m) { m.attention.scaling.clip_qkv = 2; }, "model.attention",
                      "a clamp");
  expect_zaya_finding([](ModelConfig& m) { m.layers[0].takes_router_state = true; }, "model.router",
                      "layer 0 reads a router state that layer -1 does not have");
  expect_zaya_finding([](ModelConfig& m) { m.moe.router_hidden = 0; }, "model.router",
                      "layer 1 reads");
  expect_zaya_finding([](ModelConfig& m) { m.moe.null_slots = -1; }, "model.size", "-1 null slots");
  expect_zaya_finding([](ModelConfig& m) { m.moe.experts = 6, m.moe.routing.groups = 2; },
                      "model.groups", "null slots cannot be combined with 2 groups");
}

// Sets each shard's peak to the shard's index, so equal peaks reveal shards that share a
// measurement.
std::vector<int64_t> measured_indices(const Plan& plan) {
  auto sizes = measure_shards(plan, [](size_t index) {
    return CompiledSize{.peak_activation_bytes = static_cast<int64_t>(index)};
  });
  EXPECT_TRUE(sizes.has_value()) << render(sizes.error());
  std::vector<int64_t> indices;
  for (const ShardSize& size : *sizes) indices.push_back(size.peak_activation_bytes);
  return indices;
}

// Layer 0 has embed_scale and embed_bias; the last layer's router has no state output.
TEST(MeasureShards, MeasuresUnusualFirstAndLastLayers) {
  ModelConfig model = zaya_like();
  model.layers.insert(model.layers.begin() + 1, model.layers[1]);
  const Plan plan = plan_of(sample_options(), model);
  ASSERT_EQ(plan.shards.size(), 9u);
  EXPECT_EQ(measured_indices(plan), (std::vector<int64_t>{0, 1, 2, 3, 2, 3, 2, 7, 8}));
  const auto sizes = measure_shards(plan, [](size_t) { return CompiledSize{}; });
  EXPECT_EQ((*sizes)[0].weights - (*sizes)[2].weights, 2 * model.hidden);
}

TEST(MeasureShards, SharesExpertsOfAllAttentionKinds) {
  ModelConfig model = sample_model();
  model.layers = {{.moe = true}, {.moe = true, .window = 2}};
  const Plan plan = plan_of(sample_options(), model);
  ASSERT_EQ(plan.shards.size(), 5u);
  EXPECT_EQ(measured_indices(plan), (std::vector<int64_t>{0, 1, 2, 1, 4}));
}

}  // namespace
}  // namespace moec
