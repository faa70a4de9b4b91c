#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

constexpr Gating kLimited{Activation::clamped_swiglu, 7, 1.702};

struct Fused {
  Shard shard;
  Diagnostics notes;
};

Fused fuse(const Shard& shard, const WeightForms& forms = {}) {
  PassContext context{{.routing = RoutingForm::op, .weights = forms}, {}};
  auto result = fuse_experts(shard, context);
  EXPECT_TRUE(result.has_value());
  return {result.value_or(shard), std::move(context.notes)};
}

// The op's data in a shard that has exactly one.
Moe only_moe(const Shard& shard) {
  EXPECT_EQ(count_ops<Moe>(shard), 1u);
  for (const Op& op : shard.ops)
    if (const auto* moe = std::get_if<Moe>(&op.data)) return *moe;
  return {};
}

WeightForms forms(std::string_view text) { return *parse_weight_forms(text); }

TEST(FuseExperts, PreservesValues) {
  for (const bool biases : {false, true})
    for (const Gating& gating : {Gating(), kLimited})
      for (Layout layout : kTokenLayouts)
        for (int64_t count : {1, 3}) {
          const MoeSizes sizes{.experts = 9, .scale = 5, .biases = biases, .gating = gating};
          const Shard before = group_shard(sizes, layout, 6, count);
          const Fused after = fuse(before);
          EXPECT_EQ(count_ops<SoftMoe>(after.shard), 0u);
          EXPECT_TRUE(after.notes.empty());
          expect_same_values(before, after.shard);
        }
}

TEST(FuseExperts, PreservesValuesThroughThePipeline) {
  for (Layout layout : kTokenLayouts) {
    const Shard before = moe_shard({.experts = 6, .biases = true}, layout, kTopTwo);
    const Shard after = run_default(before, {.routing = RoutingForm::op});
    EXPECT_EQ(only_moe(after).top_k, 2);
    expect_same_values(before, after);
  }
}

TEST(FuseExperts, FindsTopKBehindACapacity) {
  const Shard before = moe_shard({.experts = 6, .tokens = 6}, Layout::rows, kTopTwo);
  const Shard after = run_default(before, {.routing = RoutingForm::op, .capacity = 0.5});
  EXPECT_EQ(only_moe(after).top_k, 2);
}

TEST(FuseExperts, AllowsAllExpertsWithoutARouter) {
  EXPECT_EQ(only_moe(fuse(group_shard({}, Layout::rows, 2, 3)).shard).top_k, 3);
}

TEST(FuseExperts, KeepsExpertsThatTheOpLacks) {
  const auto cause = [](const MoeSizes& sizes, DType dtype, const char* weights) {
    const Fused kept = fuse(group_shard(sizes, Layout::rows, 0, 3, dtype), forms(weights));
    EXPECT_EQ(count_ops<Moe>(kept.shard), 0u);
    EXPECT_EQ(kept.notes.size(), 1u);
    if (kept.notes.empty()) return std::string();
    EXPECT_EQ(kept.notes[0].code, "experts.not_fused");
    return kept.notes[0].cause;
  };
  EXPECT_EQ(cause({.gating = {Activation::gelu_tanh}}, DType::f32, "float"),
            "the experts stay separate: the activation is gelu_tanh");
  EXPECT_EQ(cause({.gating = {Activation::relu2}}, DType::f32, "float"),
            "the experts stay separate: the activation is relu2");
  EXPECT_EQ(cause({.weight_on = RoutedWeight::input}, DType::f32, "float"),
            "the experts stay separate: the routing weight multiplies the input of an expert");
  EXPECT_EQ(cause({}, DType::bf16, "int8"),
            "the experts stay separate: onnxruntime has no bf16 kernel");
  EXPECT_EQ(cause({}, DType::f16, "float"),
            "the experts stay separate: f16 rounds the logarithms of routing weights");
  EXPECT_EQ(cause({}, DType::f32, "int8,seeded(101)=int4:32"),
            "the experts stay separate: the matrices have different weight forms");
  EXPECT_EQ(cause({}, DType::f32, "int4-lut:g16"),
            "the experts stay separate: the op has no weight form int4-lut:g16");
  EXPECT_EQ(cause({.width = 64, .inner = 48}, DType::f32, "int4:32"),
            "the experts stay separate: the inputs of the matrices are not several blocks of 32");
}

TEST(FuseExperts, EncodesRowsAndBlocks) {
  const MoeSizes sizes{.experts = 3, .width = 64, .inner = 96};
  const auto encoding = [&](const char* weights) {
    const Shard after = run_default(moe_shard(sizes, Layout::rows, kTopTwo),
                                    {.routing = RoutingForm::op,
                                     .weights = forms(weights),
                                     .target = {.projection = ProjectionForm::matmul}});
    for (const Op& op : after.ops)
      if (std::holds_alternative<Moe>(op.data))
        return to_string(after.producer_as<Weight>(op.operands[2])->encoding);
    return std::string();
  };
  EXPECT_EQ(encoding("float"), "plain");
  EXPECT_EQ(encoding("int8"), "affine(8; 1, 1, 64)");
  EXPECT_EQ(encoding("int4:32"), "affine(4; 1, 1, 32)");
  EXPECT_EQ(encoding("int4:32:zero"), "affine(4; 1, 1, 32; zero)");
}

// Two experts of 64 by 64 in the q4_0 blocks of a GGUF file; their ups may be floats.
Shard stored_experts(bool float_ups) {
  Builder b("L00.moe", Form::model);
  const auto type = [](int64_t channels) {
    return token_type(DType::f32, Layout::rows, channels, 3);
  };
  std::vector<ValueId> operands = {b.input("x", type(64)), b.input("routing", type(2))};
  const auto blocks = [](const std::string& name) {
    return then(tensor_view(name, {DType::u8, {64, 2 * 18}}), UnblockStep{BlockType::q4_0});
  };
  for (const std::string expert : {"0", "1"}) {
    operands.push_back(b.weight(blocks("gate." + expert)));
    operands.push_back(b.weight(float_ups ? tensor_view("up." + expert, {DType::f32, {64, 64}})
                                          : blocks("up." + expert)));
    operands.push_back(b.weight(blocks("down." + expert)));
  }
  b.output("y", b.emit(SoftMoe{.experts = 2}, operands));
  return b.finish();
}

TEST(FuseExperts, CopiesStoredCodes) {
  const Shard after =
      run_default(stored_experts(false), {.routing = RoutingForm::op,
                                          .weights = forms("copy"),
                                          .target = {.projection = ProjectionForm::matmul}});
  EXPECT_EQ(only_moe(after).top_k, 2);
  for (const Op& op : after.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data)) {
      ASSERT_TRUE(is_copied(weight->encoding));
      EXPECT_EQ(std::get<AffineEncoding>(weight->encoding).bits, 4);
      EXPECT_EQ(std::get<AffineEncoding>(weight->encoding).block, (Dims{1, 1, 32}));
    }
}

TEST(FuseExperts, KeepsPartlyStoredCodes) {
  const Fused kept = fuse(stored_experts(true), forms("copy"));
  EXPECT_EQ(count_ops<Moe>(kept.shard), 0u);
  ASSERT_EQ(kept.notes.size(), 1u);
  EXPECT_EQ(kept.notes[0].cause, "the experts stay separate: the op has no weight form copy");
}

TEST(FuseExperts, WarnsOfRoundedActivations) {
  const MoeSizes sizes{.experts = 3, .width = 64, .inner = 64};
  const Fused fused = fuse(group_shard(sizes, Layout::rows, 0, 3), forms("int8:32"));
  EXPECT_EQ(count_ops<Moe>(fused.shard), 1u);
  ASSERT_EQ(fused.notes.size(), 1u);
  EXPECT_EQ(fused.notes[0].code, "experts.inexact");
  EXPECT_EQ(fused.notes[0].severity, Severity::warning);
}

}  // namespace
}  // namespace moec
