// Tests the rules of targets/rknn.json with shards made for them and with the units that
// rknn-toolkit2 2.5.0 assigned to single ops.
#include "backends/targets/load_target.h"
#include "tests/backends/targets/rule_samples.h"

namespace moec {
namespace {

const Type kTokens{DType::f32, {1, 128, 1, 16}};

using Make = std::function<ValueId(Builder&, ValueId)>;

std::function<RuleSample(bool)> either(const Make& broken, const Make& kept,
                                       const Type& type = kTokens) {
  return [=](bool breaks) { return of_input(type, breaks ? broken : kept); };
}

Make unary(UnaryFn fn) {
  return [=](Builder& b, ValueId x) { return b.unary(fn, x); };
}
Make reduce(ReduceFn fn) {
  return [=](Builder& b, ValueId x) { return b.reduce(fn, x, 1); };
}
Make compare(CompareFn fn) {
  return [=](Builder& b, ValueId x) {
    return b.select(b.compare(fn, x, b.unary(UnaryFn::sqrt, x)), x, b.mul(x, x));
  };
}
// A binary op whose operands have the same shape.
Make binary(BinaryFn fn) {
  return [=](Builder& b, ValueId x) { return b.binary(fn, x, b.unary(UnaryFn::sqrt, x)); };
}
Make with_number(BinaryFn fn, double number) {
  return [=](Builder& b, ValueId x) { return b.binary(fn, x, b.scalar_like(x, number)); };
}
ValueId take_two(Builder& b, ValueId x) { return b.emit_all(TopK{2, 1}, {x})[0]; }
ValueId project_down(Builder& b, ValueId x) {
  ValueId tokens = b.reshape(x, {1, 128, 1, 16}, Layout::bc1s);
  return b.emit(Conv{}, {tokens, b.weight(seeded_view(1, {DType::f32, {64, 128, 1, 1}}), "w")});
}
ValueId multiply_own(Builder& b, ValueId x) { return b.matmul(x, b.transpose(x, {0, 1, 3, 2})); }

const RuleSamples& rknn_samples() {
  static const Make root = unary(UnaryFn::sqrt);
  static const RuleSamples all = {
      {"K1", read_state_or_port},
      {"K2", either(take_two, root)},
      {"K3", either(compare(CompareFn::greater), root)},
      {"K4", either(unary(UnaryFn::exp), root)},
      {"K5", either(unary(UnaryFn::reciprocal), root)},
      {"K6", either(with_number(BinaryFn::max, 0.5), binary(BinaryFn::max))},
      {"K7",
       [](bool breaks) {
         return of_input({breaks ? DType::bf16 : DType::f16, {1, 4, 1, 1}}, root);
       }},
      {"K8", either(project_down, root)},
      {"K9", either(with_number(BinaryFn::add, 1e5), with_number(BinaryFn::add, 6e4))},
      {"K10", experts_or_matmul},
  };
  return all;
}

TEST(RknnRules, FlagOnlyTheirBreakingSamples) {
  expect_samples_break_their_rules(builtin_target("rknn").value(), rknn_samples());
}

// Predicted unit of the shard's op in `ops`: the unit named by a broken rule, or the target's unit.
std::string predicted_unit(const Target& target, const Shard& shard, const OpSet& ops) {
  for (const OpBreach& breach : find_breaches(target, shard))
    if (!breach.rule->unit.empty() && ops.contains(shard.ops[breach.op].data))
      return breach.rule->unit;
  return target.unit;
}

struct MeasuredUnit {
  std::string mnemonic;
  Make make;
  std::string unit;  // the "Target" column of the compiler's table
};

// The table that rknn-toolkit2 2.5.0 prints for rk3588 and inputs of [1, 128, 1, 16] in f32.
const std::vector<MeasuredUnit>& measured_units() {
  static const std::vector<MeasuredUnit> all = {
      {"exp", unary(UnaryFn::exp), "CPU"},
      {"erf", unary(UnaryFn::erf), "CPU"},
      {"log", unary(UnaryFn::log), "CPU"},
      {"reciprocal", unary(UnaryFn::reciprocal), "CPU"},
      {"abs", unary(UnaryFn::abs), "NPU"},
      {"neg", unary(UnaryFn::neg), "NPU"},
      {"sqrt", unary(UnaryFn::sqrt), "NPU"},
      {"sigmoid", unary(UnaryFn::sigmoid), "NPU"},
      {"tanh", unary(UnaryFn::tanh), "NPU"},
      {"greater", compare(CompareFn::greater), "CPU"},
      {"less", compare(CompareFn::less), "CPU"},
      {"equal", compare(CompareFn::equal), "CPU"},
      {"select", compare(CompareFn::equal), "NPU"},
      {"min", binary(BinaryFn::min), "CPU"},
      {"max", with_number(BinaryFn::max, 0.5), "CPU"},
      {"max", binary(BinaryFn::max), "NPU"},
      {"div", binary(BinaryFn::div), "NPU"},
      {"sub", binary(BinaryFn::sub), "NPU"},
      {"mul", binary(BinaryFn::mul), "NPU"},
      {"add", binary(BinaryFn::add), "NPU"},
      {"topk", take_two, "CPU"},
      {"reduce_max", reduce(ReduceFn::max), "CPU"},
      {"reduce_sum", reduce(ReduceFn::sum), "NPU"},
      {"reduce_mean", reduce(ReduceFn::mean), "NPU"},
      {"conv", project_down, "NPU"},
      {"matmul", multiply_own, "NPU"},
  };
  return all;
}

TEST(RknnRules, MatchUnitsAssignedByTheCompiler) {
  const Target target = builtin_target("rknn").value();
  for (const ChipFamily& family : target.chips) {
    const Target chip = for_chip(target, family.name).value();
    for (const MeasuredUnit& measured : measured_units()) {
      const OpSet ops = OpSet::named(measured.mnemonic).value();
      EXPECT_EQ(predicted_unit(chip, of_input(kTokens, measured.make).shard, ops), measured.unit)
          << measured.mnemonic << " on " << family.name;
    }
  }
}

TEST(RknnRules, ReplaceReciprocalsWithDivisions) {
  EXPECT_TRUE(builtin_target("rknn")->limits.no_reciprocals);
  for (const char* other : {"onnx", "ane", "qnn", "openvino"})
    EXPECT_FALSE(builtin_target(other)->limits.no_reciprocals) << other;
}

}  // namespace
}  // namespace moec
