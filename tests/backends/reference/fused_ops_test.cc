#include "backends/reference/fused_ops.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <limits>

#include "backends/cpu/cpu_products.h"
#include "ir/text/text.h"

namespace moec {
namespace {

const std::string kNorm =
    "shard s static {\n"
    "  input %x : f32[3,40]{rows}\n"
    "  input %w : f32[1,40]\n"
    "  %eps = constant {type = f32[], values = [1e-5]} : f32[]\n"
    "  %square = mul %x, %x : f32[3,40]{rows}\n"
    "  %mean = reduce_mean %square {axis = 1} : f32[3,1]{rows}\n"
    "  %sum = add %mean, %eps : f32[3,1]{rows}\n"
    "  %rms = sqrt %sum : f32[3,1]{rows}\n"
    "  %inverse = reciprocal %rms : f32[3,1]{rows}\n"
    "  %normalised = mul %x, %inverse : f32[3,40]{rows}\n";
const std::string kWeighted =
    "  %y = mul %normalised, %w : f32[3,40]{rows}\n"
    "  output y = %y\n";

const std::string kRotation =
    "shard s static {\n"
    "  input %x : f32[1,2,3,8]\n"
    "  input %cos : f32[1,1,3,4]\n"
    "  input %sin : f32[1,1,3,4]\n"
    "  %a = slice %x {axis = 3, begin = 0, size = 4} : f32[1,2,3,4]\n"
    "  %b = slice %x {axis = 3, begin = 4, size = 4} : f32[1,2,3,4]\n"
    "  %a_cos = mul %a, %cos : f32[1,2,3,4]\n"
    "  %b_sin = mul %b, %sin : f32[1,2,3,4]\n"
    "  %b_cos = mul %b, %cos : f32[1,2,3,4]\n"
    "  %a_sin = mul %a, %sin : f32[1,2,3,4]\n"
    "  %first = sub %a_cos, %b_sin : f32[1,2,3,4]\n"
    "  %second = add %b_cos, %a_sin : f32[1,2,3,4]\n"
    "  %y = concat %first, %second {axis = 3} : f32[1,2,3,8]\n"
    "  output y = %y\n}\n";

const std::string kGate =
    "shard s static {\n"
    "  input %g : f32[3,40]{rows}\n"
    "  input %u : f32[3,40]{rows}\n"
    "  %sigmoid = sigmoid %g : f32[3,40]{rows}\n"
    "  %silu = mul %g, %sigmoid : f32[3,40]{rows}\n"
    "  %y = mul %silu, %u : f32[3,40]{rows}\n"
    "  output y = %y\n";

const std::string kGuard =
    "shard s static {\n"
    "  input %x : f32[1,40]{rows}\n"
    "  input %r : f32[1,1]{rows}\n"
    "  %zero = constant {type = f32[], values = [0]} : f32[]\n"
    "  %product = mul %x, %r : f32[1,40]{rows}\n"
    "  %is_zero = equal %r, %zero : bool[1,1]{rows}\n"
    "  %y = select %is_zero, %zero, %product : f32[1,40]{rows}\n"
    "  output y = %y\n}\n";

// The rank of each of 4 experts for 5 tokens. Low halves decide between equal high halves.
const std::string kRank =
    "shard s static {\n"
    "  input %high : f32[1,4,1,5]\n"
    "  input %low : f32[1,4,1,5]\n"
    "  %earlier = constant {type = f32[1,4,4,1],"
    " values = [0,1,1,1,0,0,1,1,0,0,0,1,0,0,0,0]} : f32[1,4,4,1]\n"
    "  %low_self = reshape %low : f32[1,1,4,5]\n"
    "  %low_larger = greater %low, %low_self : bool[1,4,4,5]\n"
    "  %low_one = cast %low_larger {dtype = f32} : f32[1,4,4,5]\n"
    "  %low_tied = equal %low, %low_self : bool[1,4,4,5]\n"
    "  %low_wins = select %low_tied, %earlier, %low_one : f32[1,4,4,5]\n"
    "  %self = reshape %high : f32[1,1,4,5]\n"
    "  %larger = greater %high, %self : bool[1,4,4,5]\n"
    "  %one = cast %larger {dtype = f32} : f32[1,4,4,5]\n"
    "  %tied = equal %high, %self : bool[1,4,4,5]\n"
    "  %wins = select %tied, %low_wins, %one : f32[1,4,4,5]\n"
    "  %y = reduce_sum %wins {axis = 1} : f32[1,1,4,5]\n"
    "  output y = %y\n}\n";

std::vector<FusedKind> kinds_of(const Shard& shard) {
  std::vector<FusedKind> kinds;
  for (const FusedOp& op : find_fused(shard, Gates(), IdMap<OpId, uint8_t>()))
    kinds.push_back(op.kind);
  return kinds;
}

// A probe of values makes a run compute each op.
std::vector<Tensor> run(const Shard& shard, const Probe& probe) {
  const CpuProducts products(1, ActivationFormat::f32);
  Executor executor = Executor::create(shard, WeightTable{}, {.products = &products}).value();
  return executor.run(seeded_inputs(shard, 7), probe).value();
}

void expect_fused(const std::string& text, FusedKind kind) {
  const Shard shard = parse_shard(text).value();
  EXPECT_THAT(kinds_of(shard), testing::ElementsAre(kind));
  EXPECT_EQ(run(shard, {}), run(shard, [](std::string_view, const Tensor&) {}));
}

void expect_single_ops(const std::string& text) {
  const Shard shard = parse_shard(text).value();
  EXPECT_THAT(kinds_of(shard), testing::IsEmpty());
  EXPECT_EQ(run(shard, {}), run(shard, [](std::string_view, const Tensor&) {}));
}

TEST(FusedOps, EqualTheirOpsBitForBit) {
  expect_fused(kNorm + kWeighted + "}\n", FusedKind::norm);
  expect_fused(kNorm + "  output y = %normalised\n}\n", FusedKind::norm);
  expect_fused(kRotation, FusedKind::rotation);
  expect_fused(kGate + "}\n", FusedKind::gate);
  expect_fused(kGuard, FusedKind::guard);
  expect_fused(kRank, FusedKind::rank);
}

// With ties, NaN and infinities; along the selves of one token, and along tokens.
TEST(FusedOps, RankEqualScoresByIndex) {
  for (const int tokens : {1, 5}) {
    std::string text = kRank;
    for (size_t at = 0; (at = text.find(",5]", at)) != std::string::npos; ++at)
      text.replace(at, 3, fmt::format(",{}]", tokens));
    const Shard shard = parse_shard(text).value();
    std::vector<Tensor> inputs = seeded_inputs(shard, 7);
    const float infinity = std::numeric_limits<float>::infinity();
    std::vector<float>& high = inputs[0].data;
    for (size_t i = 0; i < high.size(); ++i) high[i] = i % 3 == 0 ? infinity : 2;
    inputs[1].data.front() = inputs[1].data.back();
    if (tokens > 1) high[2] = std::numeric_limits<float>::quiet_NaN();
    const CpuProducts products(1, ActivationFormat::f32);
    const auto ranks = [&](const Probe& probe) {
      auto executor = Executor::create(shard, WeightTable{}, {.products = &products});
      return executor->run(inputs, RunProbes{.values = probe}).value();
    };
    const auto fused = ranks({});
    EXPECT_EQ(fused, ranks([](std::string_view, const Tensor&) {}));
    if (tokens == 1) EXPECT_THAT(fused.front().data, testing::UnorderedElementsAre(0, 1, 2, 3));
  }
}

// The order of equal scores must be of zeros and ones, because other sums may be rounded.
TEST(FusedOps, RejectOtherRanks) {
  const auto rejects = [](std::string_view from, std::string_view to) {
    std::string text = kRank;
    text.replace(text.find(from), from.size(), to);
    expect_single_ops(text);
  };
  rejects("values = [0,1,1", "values = [0,2,1");
  rejects("larger = greater %high, %self", "larger = greater %low, %self");
  rejects("tied = equal %high", "tied = less %high");
  rejects("reduce_sum", "reduce_max");
  rejects("  output y = %y", "  output t = %wins\n  output y = %y");
}

// Other ops and outputs need inner values.
TEST(FusedOps, KeepSharedValues) {
  expect_single_ops(kNorm + kWeighted + "  output m = %mean\n}\n");
  expect_single_ops(kGate + "  output s = %silu\n}\n");
}

// The weight of another axis, and a norm along an axis that is not contiguous.
TEST(FusedOps, RejectOtherAxes) {
  const Shard shard = parse_shard(
                          "shard s static {\n"
                          "  input %x : f32[40,3]\n"
                          "  %eps = constant {type = f32[], values = [1e-5]} : f32[]\n"
                          "  %square = mul %x, %x : f32[40,3]\n"
                          "  %mean = reduce_mean %square {axis = 0} : f32[1,3]\n"
                          "  %sum = add %mean, %eps : f32[1,3]\n"
                          "  %rms = sqrt %sum : f32[1,3]\n"
                          "  %inverse = reciprocal %rms : f32[1,3]\n"
                          "  %y = mul %x, %inverse : f32[40,3]\n"
                          "  output y = %y\n}\n")
                          .value();
  EXPECT_THAT(kinds_of(shard), testing::IsEmpty());
}

// Swapped sines would turn in the other direction.
TEST(FusedOps, RejectOtherRotations) {
  std::string text = kRotation;
  text.replace(text.find("sub %a_cos"), 3, "add");
  expect_single_ops(text);
}

TEST(FusedOps, GuardAgainstProductsWithZero) {
  const Shard shard = parse_shard(kGuard).value();
  const CpuProducts products(1, ActivationFormat::f32);
  Executor executor = Executor::create(shard, WeightTable{}, {.products = &products}).value();
  std::vector<Tensor> inputs = seeded_inputs(shard, 7);
  inputs[0].data.front() = std::numeric_limits<float>::infinity();
  inputs[1].data.front() = 0;
  EXPECT_THAT(executor.run(inputs).value().front().data, testing::Each(0.0f));
}

// A factor other than the one that is compared.
TEST(FusedOps, RejectOtherGuards) {
  std::string text = kGuard;
  text.replace(text.find("equal %r"), 8, "equal %s");
  text.insert(text.find("  %zero"), "  input %s : f32[1,1]{rows}\n");
  expect_single_ops(text);
}

// Runs in f16 round each op.
TEST(FusedOps, StaySingleInF16) {
  const Shard shard = parse_shard(kNorm + kWeighted + "}\n").value();
  const CpuProducts products(1, ActivationFormat::f32);
  const auto run_in_f16 = [&](const Products* kernels) {
    const ExecutorOptions options{.precision = Precision::f16, .products = kernels};
    return Executor::create(shard, WeightTable{}, options)->run(seeded_inputs(shard, 7)).value();
  };
  EXPECT_EQ(run_in_f16(&products), run_in_f16(nullptr));
}

}  // namespace
}  // namespace moec
