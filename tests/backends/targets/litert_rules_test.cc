// The rules and weight forms of targets/litert.json. Each rule has one shard that breaks it and one
// that keeps it; a new rule without such a pair fails these tests.
#include <gmock/gmock.h>

#include "backends/targets/load_target.h"
#include "ir/target/weight_support.h"
#include "tests/backends/targets/rule_samples.h"
#include "tests/files.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

RuleSample root_of_narrow_floats(bool breaks) {
  return of_input({breaks ? DType::bf16 : DType::f16, {3, 64}},
                  [](Builder& b, ValueId x) { return b.unary(UnaryFn::sqrt, x); });
}

RuleSample narrow_choice(bool breaks) {
  return of_input({breaks ? DType::f16 : DType::f32, {1, 8}}, [](Builder& b, ValueId x) {
    return b.emit_all(TopK{2, 1}, {x})[0];
  });
}

RuleSample compared_or_softmax(bool breaks) {
  return of_input({DType::f32, {3, 64}}, [=](Builder& b, ValueId x) {
    return breaks ? b.compare(CompareFn::less, x, b.scalar_like(x, 1)) : b.softmax(x, 1);
  });
}

// Two groups of 3 channels, or six of one.
RuleSample convolution_in_groups(bool breaks) {
  const Type type = token_type(DType::f16, Layout::channels, 6, 4);
  return of_input(type, [=](Builder& b, ValueId x) {
    const int64_t groups = breaks ? 2 : 6;
    const ValueId filter = b.constant({DType::f16, {6, 6 / groups, 3, 1}}, {1}, "w");
    return b.emit(Conv{groups}, {x, filter});
  });
}

const RuleSamples& litert_samples() {
  static const RuleSamples all = {{"L1", read_state_or_port},  {"L2", root_of_narrow_floats},
                                  {"L3", narrow_choice},       {"L4", experts_or_matmul},
                                  {"L5", compared_or_softmax}, {"L6", convolution_in_groups}};
  return all;
}

TEST(LitertRules, FlagOnlyTheirBreakingSamples) {
  expect_samples_break_their_rules(builtin_target("litert").value(), litert_samples());
}

TEST(LitertTarget, StoresMatricesAsRows) {
  const Target target = builtin_target("litert").value();
  EXPECT_EQ(target.format, ShardFormat::tflite);
  EXPECT_EQ(target.projection, ProjectionForm::matmul);
  EXPECT_TRUE(target.engine.matrix_rows);
  EXPECT_FALSE(target.has_state);
}

std::vector<std::string> ids_of(const Target& target) {
  std::vector<std::string> ids;
  for (const TargetRule& rule : target.rules) ids.push_back(rule.id);
  return ids;
}

TEST(LitertlmTarget, ExtendsLitert) {
  const Target litert = builtin_target("litert").value();
  const Target litertlm = builtin_target("litertlm").value();
  EXPECT_EQ(ids_of(litertlm), ids_of(litert));
  EXPECT_EQ(litertlm.weights.size(), litert.weights.size());
  EXPECT_EQ(litertlm.limits, litert.limits);
  EXPECT_TRUE(litertlm.engine.matrix_rows);
  EXPECT_TRUE(litertlm.engine.decoder_graph);
  EXPECT_FALSE(litert.engine.decoder_graph);
}

RuleSample exp_or_tanh(bool breaks) {
  return of_input({DType::f16, {3, 64}}, [=](Builder& b, ValueId x) {
    return b.unary(breaks ? UnaryFn::exp : UnaryFn::tanh, x);
  });
}

RuleSample erf_or_tanh(bool breaks) {
  return of_input({DType::f16, {3, 64}}, [=](Builder& b, ValueId x) {
    return b.unary(breaks ? UnaryFn::erf : UnaryFn::tanh, x);
  });
}

TEST(MediatekRules, FlagOnlyTheirBreakingSamples) {
  RuleSamples samples = litert_samples();
  samples["L5"] = exp_or_tanh;
  samples["M1"] = erf_or_tanh;
  expect_samples_break_their_rules(builtin_target("litert-mediatek").value(), samples);
}

TEST(MediatekForms, RefuseBlocks) {
  const Target target = builtin_target("litert-mediatek").value();
  EXPECT_EQ(target.four_bits, parse_weight_form("int4:row").value());
  EXPECT_TRUE(
      takes_weight_form(target, parse_weight_form("int4:row").value(), ProjectionForm::matmul));
  EXPECT_FALSE(
      takes_weight_form(target, parse_weight_form("int4:32").value(), ProjectionForm::matmul));
}

TEST(LitertForms, AcceptsCodesForMatmulsOnly) {
  const Target target = builtin_target("litert").value();
  for (const char* text : {"int8", "int4:row", "int4:32", "int4:64", "int4:128", "int4:256"}) {
    const WeightForm form = parse_weight_form(text).value();
    EXPECT_TRUE(takes_weight_form(target, form, ProjectionForm::matmul)) << text;
    EXPECT_FALSE(takes_weight_form(target, form, ProjectionForm::conv)) << text;
  }
}

}  // namespace
}  // namespace moec
