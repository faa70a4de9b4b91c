// Each rule of targets/qnn.json and litert-qnn.json has one shard that breaks it and one that keeps
// it. A new rule without such a pair fails these tests. The two targets share most rules, because
// their compilers use the same libraries.
#include "backends/targets/load_target.h"
#include "ir/target/weight_support.h"
#include "tests/backends/targets/rule_samples.h"

namespace moec {
namespace {

RuleSample largest(bool breaks) {
  return of_input({DType::f16, {1, 8, 1, 1}}, [=](Builder& b, ValueId x) {
    return breaks ? b.emit_all(TopK{2, 1}, {x})[0] : b.reduce(ReduceFn::max, x, 1);
  });
}

std::function<RuleSample(bool)> exp_in(DType broken) {
  return [=](bool breaks) {
    return of_input({breaks ? broken : DType::f16, {1, 4, 1, 1}},
                    [](Builder& b, ValueId x) { return b.unary(UnaryFn::exp, x); });
  };
}

// The weight is quantized if `bits` is above 0.
ValueId times_weight(Builder& b, ValueId x, int64_t bits, int64_t block = 32) {
  Encoding encoding = PlainEncoding{};
  if (bits > 0) encoding = AffineEncoding{.bits = bits, .block = {1, block}};
  ValueId w = b.weight(seeded_view(1, {DType::f16, {4, 64}}), "w", encoding);
  return b.matmul(x, b.transpose(w, {1, 0}));
}

RuleSample projected_sigmoid(bool breaks) {
  return of_input({DType::f16, {3, 64}}, [=](Builder& b, ValueId x) {
    ValueId y = times_weight(b, x, 0);
    if (!breaks) y = b.binary(BinaryFn::max, y, b.scalar_like(y, -60000));
    return b.unary(UnaryFn::sigmoid, y);
  });
}

RuleSample sliced_heads(bool breaks) {
  return of_input({DType::f16, {1, 5, 1, 16}}, [=](Builder& b, ValueId x) {
    return breaks ? b.slice(x, 3, 0, 4) : b.slice(b.reshape(x, {1, 5, 4, 4}), 2, 0, 1);
  });
}

RuleSample coded_rows(bool breaks) {
  const Dims dims = breaks ? Dims{3, 64} : Dims{1, 3, 64};
  return of_input({DType::f16, dims}, [=](Builder& b, ValueId x) {
    return breaks ? times_weight(b, x, 4) : b.unary(UnaryFn::exp, x);
  });
}

RuleSample uneven_blocks(bool breaks) {
  return of_input({DType::f16, {3, 64}},
                  [=](Builder& b, ValueId x) { return times_weight(b, x, 4, breaks ? 48 : 32); });
}

RuleSample added_constant(bool breaks) {
  return of_input({DType::f16, {1, 4, 1, 1}}, [=](Builder& b, ValueId x) {
    return b.add(x, b.scalar_like(x, breaks ? -1e5 : -6e4));
  });
}

std::function<RuleSample(bool)> weights_above(int64_t limit) {
  return [=](bool breaks) {
    Builder b("L00.moe", Form::static_ops);
    b.output("y", b.weight(splat_view(1, {DType::f16, {limit / 2 + (breaks ? 1 : 0)}})));
    return RuleSample{b.finish(), {.kind = ShardKind::moe}};
  };
}

RuleSample bounded_exp(bool breaks) {
  return of_input({DType::f16, {1, 4, 1, 1}}, [=](Builder& b, ValueId x) {
    return b.unary(UnaryFn::exp, b.binary(BinaryFn::max, x, b.scalar_like(x, breaks ? -88 : -87)));
  });
}

RuleSample of_tokens(bool breaks) {
  RuleSample sample = exp_in(DType::f16)(false);
  sample.facts.tokens = breaks ? 65 : 64;
  return sample;
}

const RuleSamples& qnn_samples() {
  static const RuleSamples all = {
      {"Q1", read_state_or_port},
      {"Q2", largest},
      {"Q3", exp_in(DType::bf16)},
      {"Q4", exp_in(DType::f32)},
      {"Q5", projected_sigmoid},
      {"Q6", sliced_heads},
      {"Q7", coded_rows},
      {"Q8.v68", coded_rows},
      {"Q9", added_constant},
      {"Q10", weights_above(600'000'000)},
      {"Q11", weights_above(3'700'000'000)},
      {"Q12", of_tokens},
      {"Q13", bounded_exp},
      {"Q14", uneven_blocks},
      {"Q15", experts_or_matmul},
  };
  return all;
}

TEST(QnnRules, FlagOnlyTheirBreakingSamples) {
  expect_samples_break_their_rules(builtin_target("qnn").value(), qnn_samples());
}

TEST(QnnRules, SetLimitsPerChip) {
  const Target target = builtin_target("qnn").value();
  EXPECT_TRUE(target.limits.guarded);
  EXPECT_EQ(target.limits.narrow_slice, 8);
  EXPECT_EQ(target.limits.exp_below, 87);
  EXPECT_FALSE(target.limits.no_casts);
  EXPECT_TRUE(for_chip(target, "v75")->limits.guarded);
  EXPECT_FALSE(for_chip(target, "v68")->limits.guarded);
  EXPECT_TRUE(for_chip(target, "sm8750")->limits.guarded);
}

const RuleSamples& litert_qnn_samples() {
  static const RuleSamples all = {
      {"H1", read_state_or_port}, {"H2", exp_in(DType::bf16)}, {"H3", largest},
      {"H4", experts_or_matmul},  {"H5", exp_in(DType::f32)},  {"H6", projected_sigmoid},
      {"H7", sliced_heads},       {"H8", bounded_exp},         {"H9", added_constant},
  };
  return all;
}

TEST(LitertQnnRules, FlagOnlyTheirBreakingSamples) {
  expect_samples_break_their_rules(builtin_target("litert-qnn").value(), litert_qnn_samples());
}

TEST(LitertQnnRules, SetLimitsOfEveryChip) {
  const Target target = builtin_target("litert-qnn").value();
  EXPECT_EQ(target.format, ShardFormat::tflite);
  EXPECT_TRUE(target.engine.matrix_rows);
  for (const char* chip : {"v73", "sm8650", "v79"}) {
    const TargetLimits limits = for_chip(target, chip)->limits;
    EXPECT_TRUE(limits.guarded);
    EXPECT_EQ(limits.narrow_slice, 8);
    EXPECT_EQ(limits.exp_below, 87);
  }
}

TEST(LitertQnnForms, AcceptOnlyRowsOfEightBits) {
  const Target target = builtin_target("litert-qnn").value();
  for (const char* text : {"int8", "int4:row", "int4:32", "int4:256"})
    EXPECT_EQ(takes_weight_form(target, parse_weight_form(text).value(), ProjectionForm::matmul),
              text == std::string("int8"))
        << text;
}

}  // namespace
}  // namespace moec
