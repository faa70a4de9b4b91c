#include "models/shards/build_shard.h"

#include <map>

#include "ir/text/text.h"
#include "ir/verify/verify.h"
#include "models/plan/plan_model.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/mla_form.h"
#include "tests/models/expect_error.h"
#include "tests/models/sample_model.h"
#include "tests/models/shards/shard_text.h"

namespace moec {
namespace {

Shard build(const ModelConfig& model, const BuildOptions& options, const std::string& name,
            int64_t tokens = 4) {
  auto plan = plan_model(model, declared_weights(model, DType::bf16), options);
  EXPECT_TRUE(plan.has_value()) << render(plan.error());
  for (size_t i = 0; i < plan->shards.size(); ++i) {
    if (plan->shards[i].name != name) continue;
    auto shard = build_shard(*plan, i, tokens);
    EXPECT_TRUE(shard.has_value());
    EXPECT_EQ(render(verify(*shard)), "");
    return std::move(*shard);
  }
  ADD_FAILURE() << "no shard " << name;
  return {};
}

template <class OpT>
std::vector<const Op*> ops_of(const Shard& shard) {
  std::vector<const Op*> found;
  for (const Op& op : shard.ops)
    if (std::holds_alternative<OpT>(op.data)) found.push_back(&op);
  return found;
}

TEST(BuildAttention, HasPortsForAppendedCaches) {
  Shard shard = build(sample_model(), sample_options(), "L00.attn");
  EXPECT_THAT(input_texts(shard),
              testing::ElementsAre("x f32[1,8,4,1]{channels}", "rope_cos f32[4,3]",
                                   "rope_sin f32[4,3]", "attn_mask f32[1,1,4,20]",
                                   "k_state f32[1,2,16,6]", "v_state f32[1,2,16,6]"));
  ASSERT_EQ(shard.outputs.size(), 3u);
  EXPECT_EQ(to_string(shard.type(shard.outputs[1].value)), "f32[1,2,4,6]");
  EXPECT_TRUE(shard.states.empty());
}

TEST(BuildAttention, HasPortsForBlendedCaches) {
  BuildOptions options = sample_options();
  options.cache = CacheForm::blend;
  options.layout = Layout::rows;
  options.dtype = DType::f16;
  Shard shard = build(sample_model(), options, "L00.attn");
  EXPECT_THAT(input_texts(shard),
              testing::ElementsAre("x f16[4,8]{rows}", "rope_cos f16[4,3]", "rope_sin f16[4,3]",
                                   "attn_mask f16[1,1,4,16]", "kv_write_mask f16[1,1,16,4]"));
  EXPECT_EQ(shard.outputs.size(), 1u);
  ASSERT_EQ(shard.states.size(), 2u);
  EXPECT_EQ(to_string(shard.states[0].type), "f16[1,2,16,6]");
  EXPECT_EQ(ops_of<StateWrite>(shard).size(), 2u);
}

TEST(BuildAttention, CopiesAttributesFromTheModel) {
  Shard shard = build(sample_model(), sample_options(), "L01.attn");
  auto attention = ops_of<Attention>(shard);
  ASSERT_EQ(attention.size(), 1u);
  const auto& op = std::get<Attention>(attention[0]->data);
  EXPECT_EQ(op.heads, 4);
  EXPECT_EQ(op.kv_heads, 2);
  EXPECT_EQ(op.scale, 0.5);
  EXPECT_EQ(op.qk_norm, QkNorm::per_head);
  EXPECT_EQ(op.eps, 1e-6);
  EXPECT_EQ(op.rope_dims, 6);
  EXPECT_EQ(op.cache, CacheForm::append);
}

// The norm over all heads is a separate op before the clamp; the reverse order would change
// results.
TEST(BuildAttention, NormalizesFullWidthBeforeClamping) {
  ModelConfig model = sample_model();
  model.attention.qk_norm = QkNormWidth::full;
  model.attention.scaling.clip_qkv = 2;
  Shard shard = build(model, sample_options(), "L00.attn");
  EXPECT_EQ(ops_of<RmsNorm>(shard).size(), 3u);
  EXPECT_EQ(ops_of<Binary>(shard).size(), 3u * 2 + 1);
  const Op* attention = ops_of<Attention>(shard)[0];
  EXPECT_EQ(std::get<Attention>(attention->data).qk_norm, QkNorm::none);
  const auto* above = shard.producer_as<Binary>(attention->operands[0]);
  ASSERT_NE(above, nullptr);
  EXPECT_EQ(above->fn, BinaryFn::max);
  ValueId clamped = shard.ops[shard.values[attention->operands[0]].producer].operands[0];
  ValueId normed = shard.ops[shard.values[clamped].producer].operands[0];
  EXPECT_NE(shard.producer_as<RmsNorm>(normed), nullptr);
  ValueId v = shard.ops[shard.values[attention->operands[2]].producer].operands[0];
  EXPECT_NE(shard.producer_as<Linear>(shard.ops[shard.values[v].producer].operands[0]), nullptr)
      << "v is clamped without a norm";
}

TEST(BuildAttention, AddsBiases) {
  ModelConfig model = sample_model();
  auto biases = [&] {
    size_t count = 0;
    const Shard shard = build(model, sample_options(), "L00.attn");
    for (const Op* op : ops_of<Linear>(shard)) count += op->operands.size() == 3;
    return count;
  };
  EXPECT_EQ(biases(), 0u);
  model.attention.qkv_bias = true;
  EXPECT_EQ(biases(), 3u);
  model.attention.o_bias = true;
  EXPECT_EQ(biases(), 4u);
}

TEST(BuildAttention, SubtractsTheMeanInLayerNorms) {
  ModelConfig model = sample_model();
  model.norm.kind = NormKind::layer;
  model.names.by_role["final_norm_bias"] = "final_norm.b";
  for (const char* role : {"attn_norm", "ffn_norm"})
    model.names.by_role[role + std::string("_bias")] = std::string("{i}.b.") + role;
  for (Layout layout : {Layout::channels, Layout::rows}) {
    BuildOptions options = sample_options();
    options.layout = layout;
    for (const char* name : {"L00.attn", "L00.mlp", "L01.moe", "lm_head.0"}) {
      const Shard shard = build(model, options, name);
      ASSERT_EQ(ops_of<RmsNorm>(shard).size(), 1u) << name;
      const ValueId centred = ops_of<RmsNorm>(shard)[0]->operands[0];
      ASSERT_NE(shard.producer_as<Binary>(centred), nullptr);
      EXPECT_EQ(shard.producer_as<Binary>(centred)->fn, BinaryFn::sub);
      EXPECT_EQ(ops_of<Reduce>(shard).size(), 1u);
    }
    EXPECT_EQ(views(build(model, options, "L00.attn")).at("attn_norm.bias"),
              "@0.b.attn_norm:bf16[8] | cast(f32)");
  }
}

ModelConfig tempered_model() {
  ModelConfig model = sample_model();
  model.attention.qk_norm = QkNormWidth::l2;
  model.attention.temperature = QueryTemperature{0.1, 8};
  model.layers[0].rotated = false;
  model.layers[1].window = 0;
  model.layers[1].chunk = 5;
  return model;
}

TEST(BuildAttention, ScalesQueriesWithoutRotation) {
  const Shard shard = build(tempered_model(), sample_options(), "L00.attn");
  EXPECT_THAT(input_texts(shard),
              testing::ElementsAre("x f32[1,8,4,1]{channels}", "query_scale f32[1,1,4,1]{channels}",
                                   "attn_mask f32[1,1,4,20]", "k_state f32[1,2,16,6]",
                                   "v_state f32[1,2,16,6]"));
  const Op* attention = ops_of<Attention>(shard)[0];
  const auto& op = std::get<Attention>(attention->data);
  EXPECT_EQ(op.rope, RopeStyle::none);
  EXPECT_EQ(op.rope_dims, 0);
  EXPECT_EQ(op.qk_norm, QkNorm::none) << "l2 norms stand in layers that rotate";
  const Op& scaled = shard.ops[shard.values[attention->operands[0]].producer];
  EXPECT_EQ(shard.label(scaled.operands[1]), "query_scale");
}

TEST(BuildAttention, OmitsWeightsOfL2Norms) {
  const Shard shard = build(tempered_model(), sample_options(), "L01.attn");
  const Op* attention = ops_of<Attention>(shard)[0];
  EXPECT_EQ(std::get<Attention>(attention->data).qk_norm, QkNorm::per_head_rotated);
  const auto* ones = shard.producer_as<Constant>(attention->operands[6]);
  ASSERT_NE(ones, nullptr);
  EXPECT_EQ(ones->values, std::vector<double>{1});
}

TEST(BuildLayers, SeparatesMasksPerWindow) {
  BuildOptions options = sample_options();
  options.layers_per_shard = 2;
  EXPECT_THAT(input_texts(build(tempered_model(), options, "L00.layers")),
              testing::IsSupersetOf({"query_scale f32[1,1,4,1]{channels}", "rope_cos f32[4,3]",
                                     "attn_mask f32[1,1,4,20]", "attn_mask_c5 f32[1,1,4,20]"}));
}

TEST(BuildHead, SlicesTheBiasLikeTheRows) {
  ModelConfig model = sample_model();
  model.head.bias = true;
  model.head.tied = true;
  model.names.by_role["lm_head_bias"] = "bias";
  BuildOptions options = sample_options();
  options.head_slices = 2;
  auto all = views(build(model, options, "lm_head.1"));
  EXPECT_EQ(all.at("lm_head.weight"), "@embed:bf16[11,8] | slice(0, 6, 5) | cast(f32)");
  EXPECT_EQ(all.at("lm_head.bias"), "@bias:bf16[11] | slice(0, 6, 5) | cast(f32)");
}

TEST(BuildMoe, ReadsExpertsStoredOneByOne) {
  Shard shard = build(sample_model(), sample_options(), "L01.moe");
  auto all = views(shard);
  EXPECT_EQ(all.at("experts.3.gate.weight"), "@1.3.expert_gate:bf16[3,8] | cast(f32)");
  EXPECT_EQ(all.at("experts.4.down.weight"), "@1.4.expert_down:bf16[8,3] | cast(f32)");
  EXPECT_EQ(all.at("router.weight"), "@1.router:bf16[5,8] | cast(f32)");
  EXPECT_EQ(std::get<Router>(ops_of<Router>(shard)[0]->data), sample_model().moe.routing);
  EXPECT_EQ(shard.label(shard.outputs[0].value), "moe_out");
}

TEST(BuildMoe, ReadsFusedExpertsAsSlices) {
  ModelConfig model = sample_model();
  model.names.by_role["experts_gate_up"] = "{i}.gate_up";
  model.names.by_role["experts_down"] = "{i}.down_all";
  auto all = views(build(model, sample_options(), "L01.moe"));
  EXPECT_EQ(all.at("experts.3.gate.weight"),
            "@1.gate_up:bf16[5,6,8] | slice(0, 3, 1) | slice(1, 0, 3) | reshape(3, 8) | cast(f32)");
  EXPECT_EQ(all.at("experts.3.up.weight"),
            "@1.gate_up:bf16[5,6,8] | slice(0, 3, 1) | slice(1, 3, 3) | reshape(3, 8) | cast(f32)");
  EXPECT_EQ(all.at("experts.3.down.weight"),
            "@1.down_all:bf16[5,8,3] | slice(0, 3, 1) | reshape(8, 3) | cast(f32)");
}

TEST(BuildMoe, BuildsSharedExpertAndChoiceBias) {
  ModelConfig model = sample_model();
  model.moe.shared_ff = 4;
  model.moe.choice_bias = true;
  Shard plain = build(model, sample_options(), "L01.moe");
  EXPECT_EQ(ops_of<GatedMlp>(plain)[0]->operands.size(), 4u);
  EXPECT_EQ(ops_of<Router>(plain)[0]->operands.size(), 2u);
  model.moe.shared_gated = true;
  Shard gated = build(model, sample_options(), "L01.moe");
  EXPECT_EQ(ops_of<GatedMlp>(gated)[0]->operands.size(), 5u);
  EXPECT_EQ(views(gated).at("shared_expert.sigmoid_gate.weight"),
            "@1.shared_sigmoid_gate:bf16[1,8] | cast(f32)");
}

ModelConfig latent_model() {
  ModelConfig model = sample_model();
  AttentionConfig& attention = model.attention;
  attention.latent = LatentConfig{3, 7, 4, 5, 2, 1e-6, false};
  attention.qk_norm = QkNormWidth::none;
  attention.rope.dims = 4;
  choose_mla(attention, MlaForm::latent);
  for (const char* role : {"q_a", "q_a_norm", "q_b", "kv_a", "kv_a_norm", "kv_b"})
    model.names.by_role[role] = std::string("{i}.") + role;
  return model;
}

TEST(BuildLatentAttention, CachesOneLatentKeyHead) {
  for (Layout layout : {Layout::channels, Layout::rows}) {
    BuildOptions options = sample_options();
    options.layout = layout;
    Shard shard = build(latent_model(), options, "L00.attn");
    const auto& op = std::get<Attention>(ops_of<Attention>(shard)[0]->data);
    EXPECT_EQ(op.heads, 4);
    EXPECT_EQ(op.kv_heads, 1);
    EXPECT_EQ(op.head_dim, 11);
    EXPECT_EQ(op.rope_dims, 4);
    EXPECT_EQ(to_string(shard.type(shard.outputs[1].value)), "f32[1,1,4,11]");
    EXPECT_EQ(to_string(shard.type(shard.outputs[2].value)), "f32[1,1,4,7]");
  }
}

TEST(BuildLatentAttention, CachesEveryExpandedHead) {
  for (Layout layout : {Layout::channels, Layout::rows}) {
    BuildOptions options = sample_options();
    options.layout = layout;
    options.mla = MlaForm::expanded;
    Shard shard = build(latent_model(), options, "L00.attn");
    const auto& op = std::get<Attention>(ops_of<Attention>(shard)[0]->data);
    EXPECT_EQ(op.kv_heads, 4);
    EXPECT_EQ(op.head_dim, 9) << "4 rotated dims and 5 of content";
    EXPECT_EQ(op.rope_dims, 4);
    EXPECT_EQ(to_string(shard.type(shard.outputs[1].value)), "f32[1,4,4,9]");
    EXPECT_EQ(to_string(shard.type(shard.outputs[2].value)), "f32[1,4,4,2]");
    auto all = views(shard);
    EXPECT_EQ(
        all.at("k_content.weight"),
        "@0.kv_b:bf16[28,7] | reshape(4, 7, 7) | slice(1, 0, 5) | reshape(20, 7) | cast(f32)");
    EXPECT_EQ(all.at("v.weight"),
              "@0.kv_b:bf16[28,7] | reshape(4, 7, 7) | slice(1, 5, 2) | reshape(8, 7) | cast(f32)");
  }
}

TEST(BuildLatentAttention, SlicesHeadsFromStoredMatrices) {
  auto all = views(build(latent_model(), sample_options(), "L00.attn"));
  EXPECT_EQ(all.at("q_position.weight"),
            "@0.q_b:bf16[36,3] | reshape(4, 9, 3) | slice(1, 5, 4) | reshape(16, 3) | cast(f32)");
  EXPECT_EQ(all.at("q_content.weight"),
            "@0.q_b:bf16[36,3] | reshape(4, 9, 3) | slice(1, 0, 5) | reshape(20, 3) | cast(f32)");
  EXPECT_EQ(all.at("k_position.weight"), "@0.kv_a:bf16[11,8] | slice(0, 7, 4) | cast(f32)");
  EXPECT_EQ(all.at("kv_a.weight"), "@0.kv_a:bf16[11,8] | slice(0, 0, 7) | cast(f32)");
  EXPECT_EQ(all.at("k_b.weight"),
            "@0.kv_b:bf16[28,7] | reshape(4, 7, 7) | slice(1, 0, 5) | permute(0, 2, 1) | "
            "reshape(1, 4, 7, 5) | cast(f32)");
  EXPECT_EQ(all.at("v_b.weight"),
            "@0.kv_b:bf16[28,7] | reshape(4, 7, 7) | slice(1, 5, 2) | reshape(1, 4, 2, 7) | "
            "cast(f32)");
}

TEST(BuildMoe, ReadsTransposedInterleavedExperts) {
  ModelConfig model = sample_model();
  model.moe.expert_biases = true;
  model.moe.gate_up_order = GateUpOrder::interleaved;
  for (const char* role : {"experts_gate_up_in_out", "experts_down_in_out", "experts_gate_up_bias",
                           "experts_down_bias"})
    model.names.by_role[role] = std::string("{i}.") + role;
  auto all = views(build(model, sample_options(), "L01.moe"));
  const std::string both =
      "@1.experts_gate_up_in_out:bf16[5,8,6] | slice(0, 2, 1) | "
      "reshape(8, 3, 2) | ";
  EXPECT_EQ(all.at("experts.2.gate.weight"),
            both + "slice(2, 0, 1) | reshape(8, 3) | permute(1, 0) | cast(f32)");
  EXPECT_EQ(all.at("experts.2.up.weight"),
            both + "slice(2, 1, 1) | reshape(8, 3) | permute(1, 0) | cast(f32)");
  EXPECT_EQ(all.at("experts.2.down.weight"),
            "@1.experts_down_in_out:bf16[5,3,8] | slice(0, 2, 1) | reshape(3, 8) | permute(1, 0) | "
            "cast(f32)");
  EXPECT_EQ(all.at("experts.2.up.bias"),
            "@1.experts_gate_up_bias:bf16[5,6] | slice(0, 2, 1) | reshape(3, 2) | slice(1, 1, 1) | "
            "reshape(3) | cast(f32)");
  EXPECT_EQ(all.at("experts.2.down.bias"),
            "@1.experts_down_bias:bf16[5,8] | slice(0, 2, 1) | reshape(8) | cast(f32)");
}

TEST(BuildMoe, ReadsAChoiceBiasRow) {
  ModelConfig model = sample_model();
  model.moe.choice_bias = true;
  model.names.by_role["router_choice_bias_row"] = "{i}.bias_row";
  EXPECT_EQ(views(build(model, sample_options(), "L01.moe")).at("router.choice_bias"),
            "@1.bias_row:bf16[1,5] | reshape(5) | cast(f32)");
}

// Even in an f16 shard, a wide router computes in f32, from hidden states to routing weights, so
// its bias is not split into halves. Experts and ports remain f16.
TEST(BuildMoe, ComputesAWideRouterInF32) {
  ModelConfig model = sample_model();
  model.moe.choice_bias = true;
  model.names.by_role["router_choice_bias"] = "{i}.bias";
  BuildOptions options = sample_options();
  options.dtype = DType::f16;
  options.wide_router = true;
  const Shard shard = build(model, options, "L01.moe");
  const auto all = views(shard);
  EXPECT_EQ(all.at("router.weight"), "@1.router:bf16[5,8] | cast(f32)");
  EXPECT_EQ(all.at("ffn_norm.weight"), "@1.ffn_norm:bf16[8] | cast(f32)");
  EXPECT_EQ(all.at("router.choice_bias"), "@1.bias:bf16[5] | cast(f32)");
  EXPECT_EQ(all.count("router.choice_bias_low"), 0u);
  EXPECT_EQ(all.at("experts.3.gate.weight"), "@1.3.expert_gate:bf16[3,8] | cast(f16)");
  const Op& router = *ops_of<Router>(shard).at(0);
  EXPECT_EQ(shard.type(router.results[0]).dtype, DType::f32);
  for (ValueId operand :
       {ops_of<SoftMoe>(shard).at(0)->operands[0], ops_of<SoftMoe>(shard).at(0)->operands[1]})
    EXPECT_EQ(shard.type(operand).dtype, DType::f16) << shard.label(operand);
  EXPECT_THAT(input_texts(shard), testing::ElementsAre("hidden f16[1,8,4,1]{channels}"));
  EXPECT_EQ(shard.type(shard.outputs[0].value).dtype, DType::f16);
}

TEST(BuildMoe, ReadsAFusedSharedGateUp) {
  ModelConfig model = sample_model();
  model.moe.shared_ff = 4;
  model.names.by_role["shared_gate_up"] = "{i}.shared_gate_up";
  auto all = views(build(model, sample_options(), "L01.moe"));
  EXPECT_EQ(all.at("shared_expert.gate.weight"),
            "@1.shared_gate_up:bf16[8,8] | slice(0, 0, 4) | cast(f32)");
  EXPECT_EQ(all.at("shared_expert.up.weight"),
            "@1.shared_gate_up:bf16[8,8] | slice(0, 4, 4) | cast(f32)");
  EXPECT_EQ(all.at("shared_expert.down.weight"), "@1.shared_down:bf16[8,4] | cast(f32)");
}

TEST(BuildMoe, ReadsTransposedRoutersAndFirstBiases) {
  ModelConfig model = sample_model();
  model.moe.choice_bias = true;
  model.names.by_role["router_in_out"] = "{i}.router_in_out";
  model.names.by_role["router_choice_bias_rows"] = "{i}.biases";
  auto all = views(build(model, sample_options(), "L01.moe"));
  EXPECT_EQ(all.at("router.weight"), "@1.router_in_out:bf16[8,5] | permute(1, 0) | cast(f32)");
  EXPECT_EQ(all.at("router.choice_bias"),
            "@1.biases:bf16[2,5] | slice(0, 0, 1) | reshape(5) | cast(f32)");
}

TEST(BuildMlp, ReadsFusedGateAndUp) {
  ModelConfig model = sample_model();
  model.layers.at(1).moe = false;
  model.mlp.ff = 6;
  model.names.by_role["gate_up"] = "{i}.gate_up";
  auto all = views(build(model, sample_options(), "L01.mlp"));
  EXPECT_EQ(all.at("mlp.gate.weight"), "@1.gate_up:bf16[12,8] | slice(0, 0, 6) | cast(f32)");
  EXPECT_EQ(all.at("mlp.up.weight"), "@1.gate_up:bf16[12,8] | slice(0, 6, 6) | cast(f32)");
  EXPECT_EQ(all.at("mlp.down.weight"), "@1.down:bf16[8,6] | cast(f32)");
}

TEST(BuildMoe, AddsTheSharedExpertOnce) {
  ModelConfig model = sample_model();
  model.moe.shared_ff = 4;
  BuildOptions options = sample_options();
  options.host_routing = true;
  options.experts_per_shard = 3;
  Shard first = build(model, options, "L01.moe.g0"), second = build(model, options, "L01.moe.g1");
  EXPECT_EQ(ops_of<GatedMlp>(first).size(), 1u);
  EXPECT_EQ(ops_of<GatedMlp>(second).size(), 0u);
  EXPECT_EQ(views(second).count("experts.2.up.weight"), 0u);
  EXPECT_EQ(views(second).count("experts.3.up.weight"), 1u);
  const auto& op = std::get<SoftMoe>(ops_of<SoftMoe>(second)[0]->data);
  EXPECT_EQ(op.first_expert, 3);
  EXPECT_EQ(op.experts, 2);
  EXPECT_THAT(input_texts(second),
              testing::ElementsAre("acc f32[1,8,4,1]{channels}", "hidden f32[1,8,4,1]{channels}",
                                   "routing_weights f32[1,5,4,1]{channels}"));
  EXPECT_EQ(second.label(ops_of<Binary>(second)[0]->operands[0]), "acc");
  EXPECT_EQ(ops_of<Router>(build(model, options, "L01.router")).size(), 1u);
}

TEST(BuildMlp, BuildsADenseLayer) {
  Shard shard = build(sample_model(), sample_options(), "L00.mlp", 1);
  EXPECT_EQ(views(shard).at("mlp.up.weight"), "@0.up:bf16[12,8] | cast(f32)");
  EXPECT_THAT(input_texts(shard), testing::ElementsAre("hidden f32[1,8,1,1]{channels}"));
  EXPECT_EQ(shard.outputs[0].name, "moe_out");
}

TEST(BuildHead, SlicesTheVocabularyAndTiesEmbeddings) {
  ModelConfig model = sample_model();
  BuildOptions options = sample_options();
  options.head_slices = 2;
  Shard shard = build(model, options, "lm_head.1");
  EXPECT_EQ(views(shard).at("lm_head.weight"), "@lm_head:bf16[11,8] | slice(0, 6, 5) | cast(f32)");
  EXPECT_EQ(to_string(shard.type(shard.outputs[0].value)), "f32[1,5,4,1]{channels}");
  model.head.tied = true;
  options.head_slices = 1;
  EXPECT_EQ(views(build(model, options, "lm_head.0")).at("lm_head.weight"),
            "@embed:bf16[11,8] | cast(f32)");
}

// Returns the constant factor of the multiplication that produces `product`.
double factor_of(const Shard& shard, const std::string& product) {
  for (const Op* op : ops_of<Binary>(shard)) {
    if (shard.label(op->results[0]) != product) continue;
    EXPECT_EQ(std::get<Binary>(op->data).fn, BinaryFn::mul);
    const Op& factor = shard.ops[shard.values[op->operands[1]].producer];
    return std::get<Constant>(factor.data).values.at(0);
  }
  ADD_FAILURE() << "no " << product;
  return 0;
}

TEST(BuildShard, MultipliesResidualAndLogits) {
  ModelConfig model = sample_model();
  model.stream.residual_scale = 0.25;
  model.head.divisor = 8;
  const BuildOptions options = sample_options();
  EXPECT_EQ(factor_of(build(model, options, "L00.attn"), "hidden.scaled"), 0.25);
  EXPECT_EQ(factor_of(build(model, options, "L00.mlp"), "moe_out.scaled"), 0.25);
  EXPECT_EQ(factor_of(build(model, options, "L01.moe"), "moe_out.scaled"), 0.25);
  EXPECT_EQ(factor_of(build(model, options, "lm_head.0"), "logits"), 0.125);
}

TEST(BuildShard, RejectsUnplannedWidths) {
  auto plan =
      plan_model(sample_model(), declared_weights(sample_model(), DType::f32), sample_options());
  ASSERT_TRUE(plan.has_value());
  expect_error(build_shard(*plan, 0, 3), "plan.options",
               "the plan has no shards for 3 tokens, only for 1, 4");
}

}  // namespace
}  // namespace moec
