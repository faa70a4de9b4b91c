#include "models/plan/plan_model.h"

#include "models/shards/needed_tensors.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"

namespace moec {
namespace {

Result<Plan> plan(const BuildOptions& options, const ModelConfig& model = sample_model()) {
  return plan_model(model, declared_weights(model, DType::bf16), options);
}

Plan good_plan(const BuildOptions& options, const ModelConfig& model = sample_model()) {
  Result<Plan> result = plan(options, model);
  EXPECT_TRUE(result.has_value()) << render(result.error());
  return std::move(*result);
}

std::vector<std::string> names(const Plan& plan) {
  std::vector<std::string> all;
  for (const ShardDecl& shard : plan.shards) all.push_back(shard.name + " " + shard.stem);
  return all;
}

// Formats a step as "x=edge:embed attn_mask=attn_mask:7 → hidden=edge:L00.hidden".
std::string wiring(const Step& step) {
  std::string text;
  for (const InputBinding& in : step.inputs) {
    text += in.port + "=" + std::string(enum_name(in.source));
    if (!in.edge.empty()) text += ":" + in.edge;
    if (in.window != 0) text += ":" + std::to_string(in.window);
    if (in.chunk != 0) text += ":c" + std::to_string(in.chunk);
    if (in.layer >= 0) text += "@" + std::to_string(in.layer);
    text += ' ';
  }
  text += "→";
  for (const OutputBinding& out : step.outputs) {
    text += " " + out.port + "=" + std::string(enum_name(out.sink));
    if (!out.edge.empty()) text += ":" + out.edge;
    if (out.layer >= 0) text += "@" + std::to_string(out.layer);
  }
  return text;
}

TEST(PlanModel, ListsNamesAndStems) {
  EXPECT_THAT(names(good_plan(sample_options())),
              testing::ElementsAre("L00.attn attn/L00", "L00.mlp mlp/L00", "L01.attn attn/L01",
                                   "L01.moe moe/L01", "lm_head.0 lm_head/00"));
}

TEST(PlanModel, ScalesTheEmbeddingInF32) {
  ModelConfig model = sample_model();
  EXPECT_EQ(to_string(good_plan(sample_options(), model).embedding),
            "@embed:bf16[11,8] | cast(f32)");
  model.stream.embedding_scale = 12;
  BuildOptions options = sample_options();
  options.dtype = DType::f16;
  EXPECT_EQ(to_string(good_plan(options, model).embedding),
            "@embed:bf16[11,8] | cast(f32) | scale(12) | cast(f16)");
}

TEST(PlanModel, BindsEveryPortInTheSchedule) {
  Plan plan = good_plan(sample_options());
  ASSERT_EQ(plan.schedule.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(plan.schedule[i].shard, i);
  EXPECT_EQ(wiring(plan.schedule[0]),
            "x=edge:embed rope_cos=rope_cos rope_sin=rope_sin attn_mask=attn_mask "
            "k_state=k_cache@0 v_state=v_cache@0 → hidden=edge:L00.hidden k_new=k_rows@0 "
            "v_new=v_rows@0");
  EXPECT_EQ(wiring(plan.schedule[1]), "hidden=edge:L00.hidden → moe_out=edge:L00.moe_out");
  EXPECT_EQ(wiring(plan.schedule[2]),
            "x=edge:L00.moe_out rope_cos=rope_cos rope_sin=rope_sin attn_mask=attn_mask:7 "
            "k_state=k_cache@1 v_state=v_cache@1 → hidden=edge:L01.hidden k_new=k_rows@1 "
            "v_new=v_rows@1");
  EXPECT_EQ(wiring(plan.schedule[4]), "hidden=edge:L01.moe_out → logits=logits");
}

TEST(PlanModel, MakesBlendedCachesDeviceState) {
  BuildOptions options = sample_options();
  options.cache = CacheForm::blend;
  EXPECT_EQ(wiring(good_plan(options).schedule[0]),
            "x=edge:embed rope_cos=rope_cos rope_sin=rope_sin attn_mask=attn_mask "
            "kv_write_mask=kv_write_mask → hidden=edge:L00.hidden");
}

TEST(PlanModel, OmitsRopePortsWithoutRotation) {
  ModelConfig model = sample_model();
  model.attention.rope = {};
  model.attention.rope.style = RopeStyle::none;
  EXPECT_EQ(wiring(good_plan(sample_options(), model).schedule[0]),
            "x=edge:embed attn_mask=attn_mask k_state=k_cache@0 v_state=v_cache@0 → "
            "hidden=edge:L00.hidden k_new=k_rows@0 v_new=v_rows@0");
}

TEST(PlanModel, ScalesQueriesOfUnrotatedLayers) {
  ModelConfig model = sample_model();
  model.attention.temperature = QueryTemperature{0.1, 8};
  model.layers[0].rotated = false;
  model.layers[1].window = 0;
  model.layers[1].chunk = 5;
  Plan plan = good_plan(sample_options(), model);
  EXPECT_EQ(wiring(plan.schedule[0]),
            "x=edge:embed query_scale=query_scale attn_mask=attn_mask k_state=k_cache@0 "
            "v_state=v_cache@0 → hidden=edge:L00.hidden k_new=k_rows@0 v_new=v_rows@0");
  EXPECT_EQ(wiring(plan.schedule[2]),
            "x=edge:L00.moe_out rope_cos=rope_cos rope_sin=rope_sin attn_mask=attn_mask:c5 "
            "k_state=k_cache@1 v_state=v_cache@1 → hidden=edge:L01.hidden k_new=k_rows@1 "
            "v_new=v_rows@1");
}

TEST(PlanModel, ChainsGroupsWithHostRouting) {
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 2;
  Plan plan = good_plan(options);
  EXPECT_THAT(names(plan), testing::ElementsAre("L00.attn attn/L00", "L00.mlp mlp/L00",
                                                "L01.attn attn/L01", "L01.router router/L01",
                                                "L01.moe.g0 moe/L01.g0", "L01.moe.g1 moe/L01.g1",
                                                "L01.moe.g2 moe/L01.g2", "lm_head.0 lm_head/00"));
  EXPECT_EQ(plan.shards[6].first_expert, 4);
  EXPECT_EQ(plan.shards[6].experts, 1);
  EXPECT_EQ(wiring(plan.schedule[3]),
            "hidden=edge:L01.hidden → routing_weights=edge:L01.routing_weights");
  EXPECT_EQ(wiring(plan.schedule[4]),
            "acc=edge:L01.hidden hidden=edge:L01.hidden routing_weights=edge:L01.routing_weights → "
            "moe_out=edge:L01.moe.g0.moe_out");
  EXPECT_EQ(wiring(plan.schedule[5]),
            "acc=edge:L01.moe.g0.moe_out hidden=edge:L01.hidden "
            "routing_weights=edge:L01.routing_weights → moe_out=edge:L01.moe.g1.moe_out");
  for (size_t i = 4; i < 7; ++i) {
    EXPECT_EQ(plan.schedule[i].skip_from, "acc");
    EXPECT_EQ(plan.schedule[i].skip_to, "moe_out");
  }
  EXPECT_EQ(plan.schedule[3].skip_from, "");
}

TEST(PlanModel, ChainsSlicesAndGroups) {
  ModelConfig model = sample_model();
  model.moe.shared_ff = 4;
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 3;
  options.slices.expert = 2;
  options.slices.shared = 2;
  options.slices.mlp = 2;
  const Plan plan = good_plan(options, model);
  EXPECT_THAT(names(plan),
              testing::ElementsAre("L00.attn attn/L00", "L00.mlp.s0 mlp/L00.s0",
                                   "L00.mlp.s1 mlp/L00.s1", "L01.attn attn/L01",
                                   "L01.router router/L01", "L01.shared.s0 moe/L01.shared.s0",
                                   "L01.shared.s1 moe/L01.shared.s1", "L01.moe.g0.s0 moe/L01.g0.s0",
                                   "L01.moe.g0.s1 moe/L01.g0.s1", "L01.moe.g1.s0 moe/L01.g1.s0",
                                   "L01.moe.g1.s1 moe/L01.g1.s1", "lm_head.0 lm_head/00"));
  EXPECT_EQ(wiring(plan.schedule[1]),
            "acc=edge:L00.hidden hidden=edge:L00.hidden → moe_out=edge:L00.mlp.s0.moe_out");
  EXPECT_EQ(wiring(plan.schedule[2]),
            "acc=edge:L00.mlp.s0.moe_out hidden=edge:L00.hidden → "
            "moe_out=edge:L00.mlp.s1.moe_out");
  EXPECT_EQ(wiring(plan.schedule[7]),
            "acc=edge:L01.shared.s1.moe_out hidden=edge:L01.hidden "
            "routing_weights=edge:L01.routing_weights → moe_out=edge:L01.moe.g0.s0.moe_out");
  EXPECT_EQ(plan.schedule[5].skip_from, "") << "a shared expert always runs";
  for (size_t i = 7; i < 11; ++i) EXPECT_EQ(plan.schedule[i].skip_from, "acc");
  EXPECT_EQ(plan.shards[8].first_expert, 0);
  EXPECT_EQ(plan.shards[8].experts, 3);
  EXPECT_EQ(plan.shards[8].slice, 1);
  EXPECT_EQ(plan.shards[8].slices, 2);
}

// Each sum starts with its first part, and the shared expert completes the layer.
TEST(PlanModel, CompletesSumsBeforeTheirNorms) {
  ModelConfig model = sample_model();
  model.moe.shared_ff = 4;
  model.stream.post_norms = PostNorms::all;
  model.moe.parts_normed = true;
  for (const char* role : {"attn_post_norm", "ffn_post_norm", "ffn_routed_norm",
                           "ffn_routed_post_norm", "ffn_shared_post_norm"})
    model.names.by_role[role] = std::string("{i}.") + role;
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 3;
  options.slices.mlp = 2;
  const Plan plan = good_plan(options, model);
  EXPECT_EQ(wiring(plan.schedule[1]), "hidden=edge:L00.hidden → moe_out=edge:L00.mlp.s0.moe_out");
  EXPECT_EQ(wiring(plan.schedule[5]),
            "hidden=edge:L01.hidden routing_weights=edge:L01.routing_weights → "
            "moe_out=edge:L01.moe.g0.moe_out");
  EXPECT_EQ(plan.schedule[5].skip_from, "") << "it has no sum to hand on";
  EXPECT_EQ(plan.schedule[6].skip_from, "acc");
  EXPECT_EQ(wiring(plan.schedule[7]),
            "routed_sum=edge:L01.moe.g1.moe_out hidden=edge:L01.hidden → "
            "moe_out=edge:L01.shared.moe_out");
  // Without a shared expert, the last shard only ends the layer.
  model.moe.shared_ff = 0;
  model.moe.parts_normed = false;
  EXPECT_EQ(wiring(good_plan(options, model).schedule[7]), wiring(plan.schedule[7]));
}

// Each rotation has separate columns in the table, and separate ports if layers share a shard.
TEST(PlanModel, AllowsDifferentRotationsPerLayer) {
  ModelConfig model = sample_model();
  model.more_attention = {model.attention};
  model.more_attention[0].rope.theta = 500;
  model.more_attention[0].kv_heads = 4;
  model.layers[1].attention = 1;
  const Plan plan = good_plan(sample_options(), model);
  EXPECT_EQ(plan.schedule[0].inputs[1].rotation, 0);
  EXPECT_EQ(plan.schedule[2].inputs[1].port, "rope_cos");
  EXPECT_EQ(plan.schedule[2].inputs[1].rotation, 1);
  EXPECT_EQ(plan.schedule[2].inputs[2].rotation, 1);
  BuildOptions options = sample_options();
  options.layers_per_shard = 2;
  const Plan joined = good_plan(options, model);
  std::vector<std::string> tables;
  for (const InputBinding& in : joined.schedule[0].inputs)
    if (in.source == SourceKind::rope_cos)
      tables.push_back(in.port + " " + std::to_string(in.rotation));
  EXPECT_THAT(tables, testing::ElementsAre("rope_cos 0", "rope_cos_r1 1"));
}

TEST(PlanModel, NeverSkipsTheSharedExpertsGroup) {
  ModelConfig model = sample_model();
  model.moe.shared_ff = 4;
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 3;
  Plan plan = good_plan(options, model);
  EXPECT_EQ(plan.schedule[4].skip_from, "");
  EXPECT_EQ(plan.schedule[4].skip_to, "");
  EXPECT_EQ(plan.schedule[5].skip_from, "acc");
}

TEST(PlanModel, SharesShardsBetweenWholeLayers) {
  BuildOptions options = sample_options();
  options.layers_per_shard = 2;
  const Plan plan = good_plan(options);
  EXPECT_THAT(names(plan), testing::ElementsAre("L00.layers layers/L00", "lm_head.0 lm_head/00"));
  EXPECT_EQ(plan.shards[0].layers, 2);
  EXPECT_EQ(plan.shards[0].experts, 5);
  EXPECT_EQ(moe_layers_of(plan.model, plan.shards[0]), std::vector<int64_t>{1});
  EXPECT_EQ(wiring(plan.schedule[0]),
            "x=edge:embed rope_cos=rope_cos rope_sin=rope_sin attn_mask=attn_mask "
            "k_state_L00=k_cache@0 v_state_L00=v_cache@0 attn_mask_w7=attn_mask:7 "
            "k_state_L01=k_cache@1 v_state_L01=v_cache@1 → moe_out=edge:L01.moe_out "
            "k_new_L00=k_rows@0 v_new_L00=v_rows@0 k_new_L01=k_rows@1 v_new_L01=v_rows@1");
  EXPECT_EQ(wiring(plan.schedule[1]), "hidden=edge:L01.moe_out → logits=logits");
  ModelConfig same_window = sample_model();
  same_window.layers[0].window = 7;
  EXPECT_THAT(wiring(good_plan(options, same_window).schedule[0]),
              testing::Not(testing::HasSubstr("attn_mask=")));
}

TEST(PlanModel, BalancesGroupsOfLayers) {
  ModelConfig model = sample_model();
  model.layers.resize(5, model.layers[1]);
  BuildOptions options = sample_options();
  options.layers_per_shard = 2;
  EXPECT_THAT(names(good_plan(options, model)),
              testing::ElementsAre("L00.layers layers/L00", "L02.layers layers/L02",
                                   "L04.layers layers/L04", "lm_head.0 lm_head/00"));
  options.layers_per_shard = 1;
  EXPECT_EQ(good_plan(options, model).shards.size(), 6u);
}

TEST(PlanModel, TilesTheVocabularyWithHeadSlices) {
  BuildOptions options = sample_options();
  options.head_slices = 3;
  Plan plan = good_plan(options);
  std::vector<std::pair<int64_t, int64_t>> slices;
  for (const ShardDecl& shard : plan.shards)
    if (shard.kind == ShardKind::lm_head) slices.emplace_back(shard.vocab_begin, shard.vocab_size);
  EXPECT_THAT(slices, testing::ElementsAre(std::pair(0, 4), std::pair(4, 4), std::pair(8, 3)));
}

TEST(PlanModel, CastsTheEmbedding) {
  BuildOptions options = sample_options();
  options.dtype = DType::f16;
  EXPECT_EQ(to_string(good_plan(options).embedding), "@embed:bf16[11,8] | cast(f16)");
}

TEST(PlanModel, ListsIgnoredTensorsWithAReason) {
  ModelConfig model = sample_model();
  model.names.ignored = {"*.inv_freq"};
  WeightTable weights = declared_weights(model, DType::f32);
  weights.tensors["0.inv_freq"] = {0, 0, {DType::f32, {3}}};
  weights.tensors["unknown"] = {0, 0, {DType::f32, {3}}};
  auto plan = plan_model(model, weights, sample_options());
  ASSERT_TRUE(plan.has_value());
  ASSERT_EQ(plan->ignored.size(), 1u);
  EXPECT_EQ(plan->ignored[0].tensor, "0.inv_freq");
  EXPECT_THAT(plan->ignored[0].reason, testing::HasSubstr("*.inv_freq"));
}

TEST(PlanModel, RejectsInvalidOptions) {
  auto with = [](auto change) {
    BuildOptions options = sample_options();
    change(options);
    return plan(options);
  };
  expect_error(with([](auto& o) { o.dtype = DType::bf16; }), "plan.options", "type bf16");
  expect_error(with([](auto& o) { o.layout = Layout::plain; }), "plan.options", "layout");
  expect_error(with([](auto& o) { o.cache = CacheForm::none; }), "plan.options", "cache");
  expect_error(with([](auto& o) { o.tokens = {}; }), "plan.options", "positive");
  expect_error(with([](auto& o) { o.tokens = {0, 4}; }), "plan.options", "positive");
  expect_error(with([](auto& o) { o.tokens = {4, 4}; }), "plan.options", "ascend");
  expect_error(with([](auto& o) { o.experts_per_shard = 2; }), "plan.options", "host routing");
  expect_error(with([](auto& o) { o.slices.mlp = 13; }), "plan.options",
               "13 slices of an MLP with a width of 12");
  expect_error(with([](auto& o) { o.slices.expert = 2; }), "plan.options", "host routing");
  expect_error(with([](auto& o) { o.layers_per_shard = -1; }), "plan.options", "-1 layers");
  expect_error(with([](auto& o) {
                 o.layers_per_shard = 2;
                 o.host_routing = true;
               }),
               "plan.options", "cannot be in a shard of whole layers");
  expect_error(with([](auto& o) {
                 o.layers_per_shard = 2;
                 o.cache = CacheForm::blend;
               }),
               "plan.options", "need caches as inputs");
  expect_error(with([](auto& o) { o.head_slices = 12; }), "plan.options",
               "12 slices of a head with 11 rows");
  expect_error(with([](auto& o) { o.context = 65; }), "plan.context",
               "the context is 65 tokens, the model supports 1 to 64");
  expect_error(with([](auto& o) { o.tokens = {17}; }), "plan.context",
               "a step of 17 tokens does not fit into a context of 16");
}

TEST(PlanModel, RejectsMissingAndMisshapenTensors) {
  ModelConfig model = sample_model();
  WeightTable weights = declared_weights(model, DType::f32);
  weights.tensors.at("1.router").type.dims = {5, 9};
  expect_error(plan_model(model, weights, sample_options()), "plan.tensor_shape",
               "\"1.router\" is [5,9], expected [5,8]");
  weights.tensors.erase("1.router");
  expect_error(plan_model(model, weights, sample_options()), "plan.missing_tensor",
               "\"1.router\" (router)");
}

TEST(PlanModel, RejectsInvalidModels) {
  ModelConfig model = sample_model();
  model.moe.routing.top_k = 9;
  expect_error(plan_model(model, declared_weights(sample_model(), DType::bf16), sample_options()),
               "model.top_k", "9 of 5");
}

TEST(DeclaredWeights, AreContiguous) {
  WeightTable table = declared_weights(sample_model(), DType::f16);
  uint64_t bytes = 0;
  for (const auto& [name, range] : table.tensors)
    bytes += static_cast<uint64_t>(range.type.bytes());
  EXPECT_EQ(bytes, table.files[0].bytes);
  EXPECT_EQ(table.find("1.4.expert_down")->type.dims, (Dims{8, 3}));
  EXPECT_EQ(table.find("0.router"), nullptr) << "layer 0 is dense";
}

}  // namespace
}  // namespace moec
