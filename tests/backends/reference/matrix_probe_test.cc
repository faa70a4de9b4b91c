// Tests the probes that receive the input rows of matrices and the rows of experts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "backends/reference/reference.h"
#include "ir/graph/builder.h"

namespace moec {
namespace {

using Told = std::map<std::string, std::vector<float>>;

std::vector<float> copy_of(std::span<const float> values) { return {values.begin(), values.end()}; }

// Returns the probe's records per expert; each key begins with the expert's number.
Told experts_of(const Shard& shard, const std::vector<Tensor>& inputs) {
  auto executor = Executor::create(shard, WeightTable{});
  EXPECT_TRUE(executor);
  Told told;
  const ExpertProbe probe = [&](const ExpertRows& rows) {
    const std::string name = std::to_string(rows.expert);
    told[name + ".tokens"] = {rows.tokens.begin(), rows.tokens.end()};
    told[name + ".weights"] = copy_of(rows.weights);
    told[name + ".input"] = copy_of(rows.input);
    told[name + ".inner"] = copy_of(rows.inner);
    told[name + ".output"] = copy_of(rows.output);
    told[name + (rows.weight_on == RoutedWeight::input ? ".on_input" : ".on_output")];
  };
  EXPECT_TRUE(executor->run(inputs, RunProbes{.experts = probe}));
  return told;
}

Told told_of(const Shard& shard, const std::vector<Tensor>& inputs) {
  auto executor = Executor::create(shard, WeightTable{});
  EXPECT_TRUE(executor);
  Told told;
  EXPECT_TRUE(executor->run(inputs, RunProbes{.matrices = [&](const MatrixInput& input) {
                              EXPECT_EQ(std::ssize(input.rows) % input.inputs, 0);
                              told[std::string(input.matrix)].assign(input.rows.begin(),
                                                                     input.rows.end());
                            }}));
  return told;
}

// Three tokens of two channels and two experts of width 1. Token 0 selects expert 0, token 1 both
// experts, and token 2 neither.
struct TwoExperts {
  Builder b{"probed", Form::model};
  Tensor x{token_type(DType::f32, Layout::rows, 2, 3), {1, 2, 3, 4, 5, 6}};
  Tensor routing{token_type(DType::f32, Layout::rows, 2, 3), {1, 0, 0.5F, 0.25F, 0, 0}};

  Told run(RoutedWeight weight_on) { return told_of(shard(weight_on), {x, routing}); }
  Told experts(RoutedWeight weight_on) { return experts_of(shard(weight_on), {x, routing}); }

  Shard shard(RoutedWeight weight_on) {
    const ValueId in = b.input("x", x.type), weights = b.input("w", routing.type);
    std::vector<ValueId> operands = {in, weights};
    for (const std::string expert : {"a", "b"})
      for (const std::string part : {"gate", "up", "down"}) {
        const Dims dims = part == "down" ? Dims{2, 1} : Dims{1, 2};
        operands.push_back(b.weight(splat_view(1, {DType::f32, dims}), expert + "." + part));
      }
    SoftMoe op;
    op.experts = 2;
    op.weight_on = weight_on;
    b.output("y", b.emit(op, operands, "moe"));
    return b.finish();
  }
};

TEST(MatrixProbe, ReportsRowsRoutedToEachExpert) {
  const Told told = TwoExperts().run(RoutedWeight::output);
  EXPECT_EQ(told.at("a.gate"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(told.at("a.up"), told.at("a.gate"));
  EXPECT_EQ(told.at("b.up"), (std::vector<float>{3, 4}));
  EXPECT_EQ(told.at("a.down").size(), 2U);
  EXPECT_NEAR(told.at("b.down")[0], 7 / (1 + std::exp(-7.0)) * 7, 1e-4);
}

TEST(ExpertProbe, ReportsTokensWeightsAndRows) {
  const Told told = TwoExperts().experts(RoutedWeight::output);
  EXPECT_EQ(told.at("0.tokens"), (std::vector<float>{0, 1}));
  EXPECT_EQ(told.at("0.weights"), (std::vector<float>{1, 0.5F}));
  EXPECT_EQ(told.at("0.input"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(told.at("1.tokens"), (std::vector<float>{1}));
  EXPECT_EQ(told.at("1.weights"), (std::vector<float>{0.25F}));
  const std::vector<float> inner = told.at("1.inner"), output = told.at("1.output");
  ASSERT_EQ(inner.size(), 1U);
  EXPECT_NEAR(inner[0], 7 / (1 + std::exp(-7.0)) * 7, 1e-4);
  EXPECT_EQ(output, (std::vector<float>{inner[0], inner[0]}));
  EXPECT_TRUE(told.contains("1.on_output"));
}

TEST(ExpertProbe, AppliesInputWeightsToRows) {
  const Told told = TwoExperts().experts(RoutedWeight::input);
  EXPECT_EQ(told.at("1.input"), (std::vector<float>{0.75F, 1}));
  EXPECT_NEAR(told.at("1.output")[1], 1.75 / (1 + std::exp(-1.75)) * 1.75, 1e-5);
  EXPECT_TRUE(told.contains("1.on_input"));
}

TEST(MatrixProbe, AppliesRoutingWeightsToInputs) {
  const Told told = TwoExperts().run(RoutedWeight::input);
  EXPECT_EQ(told.at("a.gate"), (std::vector<float>{1, 2, 1.5F, 2}));
  EXPECT_EQ(told.at("b.gate"), (std::vector<float>{0.75F, 1}));
}

TEST(MatrixProbe, ReportsAllRowsOfALinear) {
  for (const Layout layout : {Layout::rows, Layout::channels}) {
    Builder b("probed", Form::model);
    const Type type = token_type(DType::f32, layout, 2, 3);
    const ValueId x = b.input("x", type);
    const ValueId w = b.weight(splat_view(1, {DType::f32, {4, 2}}), "w");
    b.output("y", b.emit(Linear{}, {x, w}, "y"));
    const bool rows = layout == Layout::rows;
    const std::vector<float> data =
        rows ? std::vector<float>{1, 2, 3, 4, 5, 6} : std::vector<float>{1, 3, 5, 2, 4, 6};
    EXPECT_EQ(told_of(b.finish(), {{type, data}}).at("w"), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

}  // namespace
}  // namespace moec
