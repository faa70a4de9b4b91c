// The rules and weight forms of targets/openvino.json. Each rule has one shard that breaks it and
// one that keeps it; a new rule without such a pair fails these tests.
#include <gmock/gmock.h>

#include "backends/targets/load_target.h"
#include "ir/target/weight_support.h"
#include "tests/backends/targets/rule_samples.h"

namespace moec {
namespace {

ValueId square_root(Builder& b, ValueId x) { return b.unary(UnaryFn::sqrt, x); }

RuleSample of_widths(bool breaks) {
  RuleSample sample = of_input({DType::f16, {3, 64}}, square_root);
  sample.facts.ranged = breaks;
  return sample;
}

RuleSample chosen_two(bool breaks) {
  return of_input({DType::f16, {1, 8}}, [=](Builder& b, ValueId x) {
    return breaks ? b.emit_all(TopK{2, 1}, {x})[0] : b.reduce(ReduceFn::max, x, 1);
  });
}

std::function<RuleSample(bool)> root_in(DType broken) {
  return [=](bool breaks) {
    return of_input({breaks ? broken : DType::f16, {3, 64}}, square_root);
  };
}

RuleSample shifted_by(bool breaks) {
  return of_input({DType::f16, {3, 64}}, [=](Builder& b, ValueId x) {
    return b.add(x, b.scalar_like(x, breaks ? 1e5 : 6e4));
  });
}

RuleSample product_in_blocks(bool breaks) {
  return of_input({DType::f16, {3, 64}}, [=](Builder& b, ValueId x) {
    const AffineEncoding codes{.bits = 4, .block = {1, breaks ? 128 : 32}};
    ValueId w = b.weight(seeded_view(1, {DType::f16, {4, 64}}), "w", codes);
    return b.matmul(x, b.transpose(w, {1, 0}));
  });
}

const RuleSamples& openvino_samples() {
  static const RuleSamples all = {
      {"V1", read_state_or_port},   {"V2", of_widths},           {"V3", chosen_two},
      {"V4", root_in(DType::bf16)}, {"V5", root_in(DType::f32)}, {"V6", shifted_by},
      {"V7", product_in_blocks},    {"V8", experts_or_matmul},
  };
  return all;
}

TEST(OpenvinoRules, FlagOnlyTheirBreakingSamples) {
  expect_samples_break_their_rules(builtin_target("openvino").value(), openvino_samples());
}

TEST(OpenvinoTarget, UsesF16Matmuls) {
  const Target target = builtin_target("openvino").value();
  EXPECT_EQ(target.format, ShardFormat::onnx);
  EXPECT_EQ(target.dtype, DType::f16);
  EXPECT_EQ(target.projection, ProjectionForm::matmul);
  EXPECT_FALSE(target.has_state);
  EXPECT_EQ(target.min_coverage, 100);
}

bool openvino_takes(const std::string& form, ProjectionForm projection) {
  static const Target target = builtin_target("openvino").value();
  return takes_weight_form(target, parse_weight_form(form).value(), projection);
}

TEST(OpenvinoForms, AcceptsBlocksForMatmulsOnly) {
  for (const char* form :
       {"int4:32", "int4:128", "int4:64:zero", "int8:32", "int8:128:zero", "copy"}) {
    EXPECT_TRUE(openvino_takes(form, ProjectionForm::matmul)) << form;
    EXPECT_FALSE(openvino_takes(form, ProjectionForm::conv)) << form;
  }
}

TEST(OpenvinoForms, AcceptsRowsAndTensorsEverywhere) {
  for (const ProjectionForm projection : {ProjectionForm::matmul, ProjectionForm::conv}) {
    EXPECT_TRUE(openvino_takes("int8", projection));
    EXPECT_TRUE(openvino_takes("int8:tensor", projection));
    EXPECT_FALSE(openvino_takes("int8:expert", projection));
    EXPECT_FALSE(openvino_takes("int4-lut:g16", projection));
  }
}

// The guide to language models on NPUs requires 4-bit codes without zero points in groups of 128.
TEST(OpenvinoForms, WarnsAboutBlocksUnsupportedByNpus) {
  const Target target = builtin_target("openvino").value();
  EXPECT_EQ(to_string(target.four_bits), "int4:128");
  const auto severity = [&](const char* form) {
    return find_weight_form(target, parse_weight_form(form).value(), ProjectionForm::matmul)
        ->severity;
  };
  EXPECT_EQ(severity("int4:128"), Severity::note);
  for (const char* form : {"int4:32", "int4:128:zero", "int8:128"})
    EXPECT_EQ(severity(form), Severity::warning) << form;
}

// No NPU compiler was measured, so no pass rewrites ops for NPUs.
TEST(OpenvinoTarget, DisablesEveryRewrite) {
  EXPECT_EQ(builtin_target("openvino")->limits, TargetLimits{});
}

}  // namespace
}  // namespace moec
