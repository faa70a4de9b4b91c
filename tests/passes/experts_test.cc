#include <limits>

#include "tests/passes/moe_shards.h"

namespace moec {
namespace {

constexpr Gating kClamped{Activation::clamped_swiglu, 7, 1.702};
constexpr Gating kUngated{Activation::relu2};

constexpr const char* kExpertPass[] = {"unroll_experts", "bank_experts"};

TEST(UnrollExperts, PreservesValuesInChainsAndTrees) {
  for (Layout layout : kTokenLayouts)
    for (SumForm sum : {SumForm::chain, SumForm::tree}) {
      const Shard before = group_shard({.experts = 7}, layout, 0, 7);
      const Shard after = run_passes(before, "unroll_experts", {.target = {.sum = sum}});
      EXPECT_EQ(count_ops<SoftMoe>(after), 0u);
      EXPECT_EQ(count_ops<Linear>(after), 21u);
      expect_same_values(before, after);
    }
}

// Depth of the chain of additions that produces the output.
size_t depth_of_sum(const Shard& shard) {
  std::vector<size_t> depth(shard.values.size(), 0);
  for (const Op& op : shard.ops) {
    size_t deepest = 0;
    const auto* binary = std::get_if<Binary>(&op.data);
    for (ValueId operand : op.operands) deepest = std::max(deepest, depth[operand.index]);
    const size_t own = binary && binary->fn == BinaryFn::add ? 1 : 0;
    for (ValueId result : op.results) depth[result.index] = deepest + own;
  }
  return depth[shard.outputs[0].value.index];
}

TEST(UnrollExperts, SumsInThePreferredForm) {
  const Shard before = group_shard({.experts = 7}, Layout::rows, 0, 7);
  auto depth = [&](SumForm sum) {
    return depth_of_sum(run_passes(before, "unroll_experts", {.target = {.sum = sum}}));
  };
  EXPECT_EQ(depth(SumForm::chain), 6u);
  EXPECT_EQ(depth(SumForm::tree), 3u);
}

TEST(BankExperts, PreservesValuesForEverySplit) {
  for (Layout layout : kTokenLayouts)
    for (int64_t limit : {1, 20, 30, 70, 16384}) {
      const Shard before = group_shard({.experts = 7, .inner = 10}, layout, 0, 7);
      const Shard after = run_passes(before, "bank_experts", {.bank_channel_limit = limit});
      EXPECT_EQ(count_ops<SoftMoe>(after), 0u);
      const int64_t most = std::max<int64_t>(1, limit / 10);
      const auto banks = static_cast<size_t>((7 + most - 1) / most);
      EXPECT_EQ(count_ops<Linear>(after), 3 * banks) << limit;
      for (const Value& value : after.values)
        if (value.type.layout != Layout::plain && limit >= 10) {
          EXPECT_LE(channels_of(value.type), std::max<int64_t>(limit, 12)) << value.name;
        }
      expect_same_values(before, after);
    }
}

TEST(ExpertForms, PreserveValuesOfExpertGroups) {
  for (const char* pass : kExpertPass)
    for (Layout layout : kTokenLayouts) {
      const Shard before = group_shard({.experts = 9}, layout, 4, 3);
      expect_same_values(before, run_passes(before, pass));
    }
}

// The weights are so large that both bounds of the clamped activation apply.
TEST(ExpertForms, PreserveValuesWithBiasesAndClamping) {
  const MoeSizes sizes{.experts = 9, .scale = 5, .biases = true, .gating = kClamped};
  for (const char* pass : kExpertPass)
    for (Layout layout : kTokenLayouts)
      for (int64_t count : {1, 3}) {
        const Shard before = group_shard(sizes, layout, 6, count);
        expect_same_values(before, run_passes(before, pass, {.bank_channel_limit = 20}));
      }
}

// The gates are so large that the activation saturates on both sides.
TEST(ExpertForms, PreserveValuesWithGelu) {
  const MoeSizes sizes{.experts = 4, .scale = 6, .gating = {Activation::gelu_tanh}};
  for (const char* pass : kExpertPass)
    for (Layout layout : kTokenLayouts) {
      const Shard before = group_shard(sizes, layout, 0, 3);
      expect_same_values(before, run_passes(before, pass));
    }
}

TEST(ExpertForms, PreserveValuesWithoutAGate) {
  for (const bool biases : {false, true})
    for (const char* pass : kExpertPass)
      for (Layout layout : kTokenLayouts) {
        const MoeSizes sizes{.experts = 9, .biases = biases, .gating = kUngated};
        const Shard before = group_shard(sizes, layout, 6, 3);
        const Shard after = run_passes(before, pass, {.bank_channel_limit = 20});
        EXPECT_EQ(count_ops<Linear>(after),
                  biases ? (pass == kExpertPass[0] ? 7u : 6u) : (pass == kExpertPass[0] ? 6u : 4u));
        expect_same_values(before, after);
      }
}

TEST(ExpertForms, PreserveValuesWithWeightsOnInputs) {
  for (const Gating& gating : {Gating(), kClamped, kUngated})
    for (const char* pass : kExpertPass)
      for (Layout layout : kTokenLayouts)
        for (int64_t count : {1, 3}) {
          const MoeSizes sizes{
              .experts = 9, .scale = 2, .gating = gating, .weight_on = RoutedWeight::input};
          const Shard before = group_shard(sizes, layout, 6, count);
          expect_same_values(before, run_passes(before, pass, {.bank_channel_limit = 20}));
        }
}

TEST(ExpertForms, PreserveInputWeightsThroughThePipeline) {
  const Router top_one{.score = Score::sigmoid_selected, .top_k = 1};
  for (Layout layout : kTokenLayouts)
    for (ExpertForm form : {ExpertForm::unrolled, ExpertForm::bank}) {
      const Shard before = moe_shard({.weight_on = RoutedWeight::input}, layout, top_one);
      expect_same_values(before, run_default(before, {.experts = form}));
    }
}

TEST(ExpertForms, PreserveBiasesThroughThePipeline) {
  const MoeSizes sizes{.experts = 4, .biases = true, .gating = kClamped};
  const Shard before = group_shard(sizes, Layout::channels, 0, 4);
  for (ExpertForm form : {ExpertForm::unrolled, ExpertForm::bank})
    for (ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul})
      expect_same_values(
          before, run_default(before, {.experts = form, .target = {.projection = projection}}));
}

TEST(ExpertForms, PreserveValuesInHalfPrecision) {
  for (const char* pass : kExpertPass)
    for (Layout layout : kTokenLayouts)
      for (DType dtype : {DType::f16, DType::bf16}) {
        const Shard before = group_shard({}, layout, 0, 8, dtype);
        const Shard after = run_passes(before, pass);
        EXPECT_GT(count_ops<Select>(after), 0u);
        expect_same_values(before, after, dtype == DType::f16 ? 1e-2 : 8e-2);
      }
}

// Expert 0 overflows for every token: its gate is -inf, and silu(-inf) is NaN. Expert 1 stays
// finite.
Shard overflowing_shard(DType dtype, Layout layout, RoutedWeight weight_on) {
  Builder b("overflow", Form::model);
  ValueId x = b.input("hidden", token_type(dtype, layout, 4, 2));
  ValueId routing = b.input("routing", token_type(dtype, layout, 2, 2));
  std::vector<ValueId> operands = {x, routing};
  const double large = dtype == DType::f16 ? 30000 : 1e38;
  for (const auto& [gate, up] : {std::pair{-large, large}, {0.25, 0.25}}) {
    operands.push_back(b.weight(splat_view(gate, {dtype, {3, 4}})));
    operands.push_back(b.weight(splat_view(up, {dtype, {3, 4}})));
    operands.push_back(b.weight(splat_view(0.25, {dtype, {4, 3}})));
  }
  b.output("moe_out", b.emit(SoftMoe{.experts = 2, .weight_on = weight_on}, operands, "moe"));
  return b.finish();
}

TEST(ExpertForms, IsolateOverflowsOfUnchosenExperts) {
  for (const char* pass : kExpertPass)
    for (DType dtype : {DType::f32, DType::f16})
      for (RoutedWeight weight_on : {RoutedWeight::output, RoutedWeight::input})
        for (Layout layout : kTokenLayouts) {
          const Shard after = run_passes(overflowing_shard(dtype, layout, weight_on), pass);
          std::vector<Tensor> inputs = seeded_inputs(after, 1);
          for (float& value : inputs[0].data) value = 4;
          const bool rows = layout == Layout::rows;
          inputs[1].data = rows ? std::vector<float>{0, 1, 0, 1} : std::vector<float>{0, 0, 1, 1};
          // gate = up = 4, silu(4) · 4 · 0.75
          const float wanted = 4 / (1 + std::exp(-4.0f)) * 4 * 0.75f;
          const std::vector<Tensor> outputs = outputs_of(after, inputs);
          for (float value : outputs[0].data) EXPECT_NEAR(value, wanted, 0.02) << pass;
        }
}

TEST(ExpertForms, AcceptWeightsThatAreInputs) {
  Builder b("inputs", Form::model);
  std::vector<ValueId> operands = {b.input("hidden", token_type(DType::f32, Layout::rows, 6, 3)),
                                   b.input("routing", token_type(DType::f32, Layout::rows, 3, 3))};
  for (int e = 0; e < 3; ++e)
    for (const Dims& dims : {Dims{4, 6}, Dims{4, 6}, Dims{6, 4}})
      operands.push_back(b.input("w" + std::to_string(operands.size()), {DType::f32, dims}));
  b.output("moe_out", b.emit(SoftMoe{.experts = 3}, operands, "moe"));
  const Shard before = b.finish();
  for (ExpertForm form : {ExpertForm::unrolled, ExpertForm::bank})
    for (ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul})
      expect_same_values(
          before, run_default(before, {.experts = form, .target = {.projection = projection}}));
}

TEST(EightExperts, UnrollInto24ConvsAndOneRouter) {
  const Shard shard = run_default(moe_shard({}, Layout::channels, kTopTwo));
  EXPECT_EQ(shard.form, Form::static_ops);
  size_t expert_convs = 0, router_convs = 0;
  for (const Op& op : shard.ops) {
    if (!std::holds_alternative<Conv>(op.data)) continue;
    const std::string& weight = shard.values[op.operands[1]].name;
    expert_convs += weight.starts_with("experts.");
    router_convs += weight == "router.weight";
  }
  EXPECT_EQ(expert_convs, 24u);
  EXPECT_EQ(router_convs, 1u);
  EXPECT_EQ(count_ops<Conv>(shard), 25u);
  EXPECT_EQ(count_ops<TopK>(shard), 0u);
  EXPECT_EQ(count_ops<MatMul>(shard), 0u);
  RecordProperty("ops", static_cast<int>(shard.ops.size()));
}

TEST(EightExperts, FormABankOfFourConvs) {
  const Shard shard =
      run_default(moe_shard({}, Layout::channels, kTopTwo), {.experts = ExpertForm::bank});
  EXPECT_EQ(count_ops<Conv>(shard), 4u);
  EXPECT_EQ(count_ops<Concat>(shard), 0u) << "the joined weights are views";
  EXPECT_EQ(count_ops<Weight>(shard), 4u);
  RecordProperty("ops", static_cast<int>(shard.ops.size()));
}

TEST(EightExperts, PreserveValuesThroughTheWholePipeline) {
  for (Layout layout : kTokenLayouts)
    for (ExpertForm form : {ExpertForm::unrolled, ExpertForm::bank})
      for (ProjectionForm projection : {ProjectionForm::conv, ProjectionForm::matmul}) {
        const Shard before = moe_shard({}, layout, kTopTwo);
        expect_same_values(
            before, run_default(before, {.experts = form, .target = {.projection = projection}}));
      }
}

}  // namespace
}  // namespace moec
