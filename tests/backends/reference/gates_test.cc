// Gates: parts of a shard that are computed only for the tokens that need them.
#include "backends/reference/gates.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "backends/cpu/cpu_products.h"
#include "backends/reference/fused_ops.h"
#include "backends/reference/program.h"
#include "backends/reference/reference.h"
#include "ir/text/text.h"

namespace moec {
namespace {

// Text of a shard that adds two experts of one matrix each and its input, in the form that exports
// have.
std::string experts(Layout layout, int64_t tokens, bool guarded = true) {
  const bool is_rows = layout == Layout::rows;
  const auto type = [&](int64_t channels) {
    return is_rows ? fmt::format("f32[{},{}]{{rows}}", tokens, channels)
                   : fmt::format("f32[1,{},{},1]{{channels}}", channels, tokens);
  };
  const auto weight = [&](const std::string& name, uint64_t seed) {
    const char* dims = is_rows ? "f32[8,8]" : "f32[8,8,1,1]";
    return fmt::format("  %{} = weight seeded({}):{} : {}\n", name, seed, dims, dims);
  };
  const auto product = [&](const std::string& to, const std::string& x, const std::string& w) {
    return fmt::format("  %{} = {} %{}, %{}{} : {}\n", to, is_rows ? "matmul" : "conv", x, w,
                       is_rows ? "" : " {groups = 1}", type(8));
  };
  std::string text = "shard s static {\n";
  text += fmt::format("  input %x : {}\n  input %routing : {}\n", type(8), type(2));
  text += "  %zero = constant {type = f32[], values = [0]} : f32[]\n";
  for (const int expert : {0, 1}) {
    const std::string e = fmt::format("e{}.", expert);
    text += weight(e + "up", 1 + static_cast<uint64_t>(expert)) + product(e + "h", "x", e + "up");
    text += fmt::format("  %{}abs = abs %{}h : {}\n", e, e, type(8));
    text += fmt::format("  %{}gate = slice %routing {{axis = 1, begin = {}, size = 1}} : {}\n", e,
                        expert, type(1));
    text += fmt::format("  %{0}routed = mul %{0}abs, %{0}gate : {1}\n", e, type(8));
    const std::string flags = is_rows ? fmt::format("bool[{},1]{{rows}}", tokens)
                                      : fmt::format("bool[1,1,{},1]{{channels}}", tokens);
    if (guarded) text += fmt::format("  %{0}off = equal %{0}gate, %zero : {1}\n", e, flags);
    if (guarded)
      text += fmt::format("  %{0}guarded = select %{0}off, %zero, %{0}routed : {1}\n", e, type(8));
    text += weight(e + "down", 3 + static_cast<uint64_t>(expert));
    text += product(e + "out", guarded ? e + "guarded" : e + "routed", e + "down");
  }
  text += fmt::format("  %experts = add %e0.out, %e1.out : {}\n", type(8));
  text += fmt::format("  %sum = add %experts, %x : {}\n  output y = %sum\n}}\n", type(8));
  return text;
}

struct Runs {
  std::vector<float> by_reference, by_cpu;
  std::vector<float> with_probe;  // by_cpu of a run whose values a probe sees
  std::vector<std::string> seen;
};

Runs run_both(const std::string& text, const std::vector<float>& routing,
              std::vector<std::string> watched = {}) {
  const Shard shard = parse_shard(text).value();
  std::vector<Tensor> inputs = seeded_inputs(shard, 5);
  inputs[1].data = routing;
  const CpuProducts products(2, ActivationFormat::f32);
  Executor reference = Executor::create(shard, WeightTable{}, ExecutorOptions{}).value();
  Executor cpu =
      Executor::create(shard, WeightTable{},
                       ExecutorOptions{.products = &products, .watched = std::move(watched)})
          .value();
  Runs runs;
  runs.by_reference = reference.run(inputs).value().front().data;
  runs.by_cpu = cpu.run(inputs).value().front().data;
  runs.with_probe =
      cpu.run(inputs, [&](std::string_view label, const Tensor&) { runs.seen.emplace_back(label); })
          .value()
          .front()
          .data;
  return runs;
}

void expect_near(const Runs& runs) {
  ASSERT_EQ(runs.by_reference.size(), runs.by_cpu.size());
  EXPECT_EQ(runs.by_cpu, runs.with_probe);
  for (size_t i = 0; i < runs.by_cpu.size(); ++i)
    EXPECT_NEAR(runs.by_reference[i], runs.by_cpu[i], 1e-5) << i;
}

Gates gates_of(const std::string& text) {
  const Shard shard = parse_shard(text).value();
  IdMap<ValueId, uint8_t> brought(shard.values.size());
  for (const Op& op : shard.ops)
    if (std::holds_alternative<Weight>(op.data) || std::holds_alternative<Constant>(op.data))
      brought[op.results.front()] = 1;
  return find_gates(shard, brought);
}

Program load(const std::string& text) {
  static const CpuProducts products(1, ActivationFormat::f32);
  const WeightReader weights = WeightReader::open(WeightTable{}).value();
  return load_program(parse_shard(text).value(), weights, {.products = &products}).value();
}

TEST(Gates, FindOneGatePerExpert) {
  for (const Layout layout : {Layout::rows, Layout::channels})
    for (const int64_t tokens : {1, 8, 5})
      EXPECT_EQ(gates_of(experts(layout, tokens)).gates.size(), 2) << tokens;
}

// Without the select, a nonfinite value times a routing weight of 0 is NaN, so no token can be
// skipped.
TEST(Gates, RequireASelect) {
  EXPECT_TRUE(gates_of(experts(Layout::rows, 8, false)).gates.empty());
}

// A run then computes and adds only the elements of the selected tokens.
TEST(Gates, AreSummedInOneStep) {
  const std::string text = experts(Layout::rows, 8);
  const auto fused = find_fused(parse_shard(text).value(), gates_of(text), IdMap<OpId, uint8_t>());
  ASSERT_EQ(fused.size(), 1);
  EXPECT_EQ(fused.front().kind, FusedKind::sum);
  EXPECT_EQ(fused.front().operands.size(), 3);
}

// The first step of each expert names the step after it, unless the expert is an output.
TEST(Gates, SkipStepsOfClosedExperts) {
  const auto skipped = [](const std::string& text) {
    return std::ranges::count_if(load(text).runs.plain.steps,
                                 [](const RunStep& step) { return step.after_closed > 0; });
  };
  std::string text = experts(Layout::rows, 8);
  EXPECT_EQ(skipped(text), 2);
  text.insert(text.rfind('}'), "  output e = %e0.out\n");
  EXPECT_EQ(skipped(text), 1);
}

// Of one token: their products run together.
TEST(Gates, JoinAlikeParts) {
  for (const Layout layout : {Layout::rows, Layout::channels}) {
    const Program program = load(experts(layout, 1));
    ASSERT_EQ(program.runs.parts.size(), 1);
    EXPECT_EQ(program.runs.parts.front().parts.size(), 2);
    for (const std::vector<float>& routing :
         {std::vector{0.5f, 0.25f}, {0.0f, 1.0f}, {1.0f, 0.0f}, {0.0f, 0.0f}})
      expect_near(run_both(experts(layout, 1), routing));
  }
  EXPECT_THAT(load(experts(Layout::rows, 2)).runs.parts, testing::IsEmpty());
}

TEST(Gates, KeepPartsApartThatOthersRead) {
  std::string text = experts(Layout::rows, 1);
  text.insert(text.rfind('}'), "  output e = %e0.out\n");
  EXPECT_THAT(load(text).runs.parts, testing::IsEmpty());
  expect_near(run_both(text, {0.0f, 0.5f}));
  std::string sliced = experts(Layout::rows, 1);
  sliced.insert(sliced.rfind('}'), "  output g = %e1.gate\n");
  EXPECT_THAT(load(sliced).runs.parts, testing::IsEmpty());
  expect_near(run_both(sliced, {0.5f, 0.0f}));
}

TEST(Gates, MatchTheReferenceForSelectedTokens) {
  for (const Layout layout : {Layout::rows, Layout::channels}) {
    // Token t of expert e is element 2t + e of rows, e · 4 + t of channels.
    std::vector<float> some = {0.5f, 0, 0, 0.25f, 0, 0, 1, 0};
    expect_near(run_both(experts(layout, 4), some));
    expect_near(run_both(experts(layout, 4), std::vector<float>(8, 0.5f)));
    const Runs none = run_both(experts(layout, 4), std::vector<float>(8, 0.0f));
    EXPECT_EQ(none.by_cpu, none.by_reference);
    expect_near(none);
  }
}

TEST(Gates, PropagateNanWeights) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Runs runs = run_both(experts(Layout::rows, 1), {nan, 0});
  EXPECT_THAT(runs.by_reference, testing::Each(testing::IsNan()));
  EXPECT_THAT(runs.by_cpu, testing::Each(testing::IsNan()));
}

TEST(Gates, ExposeWatchedValues) {
  const std::vector<float> routing = {0.5f, 0, 0, 0.25f, 0, 0, 1, 0};
  const Runs plain = run_both(experts(Layout::rows, 4), routing);
  EXPECT_THAT(plain.seen, testing::Not(testing::Contains("e0.abs")));
  EXPECT_THAT(plain.seen, testing::Contains("e0.out"));
  const Runs watching = run_both(experts(Layout::rows, 4), routing, {"e0.abs"});
  EXPECT_THAT(watching.seen, testing::Contains("e0.abs"));
  EXPECT_THAT(watching.seen, testing::Not(testing::Contains("e1.abs")));
  expect_near(watching);
}

// Threads divide the outputs, never the terms of one sum.
TEST(CpuProducts, KeepBitsForAnyThreadCount) {
  const Shard shard = parse_shard(
                          "shard s static {\n  input %x : f32[3,512]{rows}\n"
                          "  %w = weight seeded(1):f32[512,1000] : f32[512,1000]\n"
                          "  %y = matmul %x, %w : f32[3,1000]{rows}\n  output y = %y\n}\n")
                          .value();
  const std::vector<Tensor> inputs = seeded_inputs(shard, 2);
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 8}) {
    const CpuProducts products(threads, ActivationFormat::f32);
    Executor executor =
        Executor::create(shard, WeightTable{}, ExecutorOptions{.products = &products}).value();
    const std::vector<float> values = executor.run(inputs).value().front().data;
    if (first.empty()) first = values;
    EXPECT_EQ(values, first) << threads;
  }
}

}  // namespace
}  // namespace moec
