#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/targets/load_target.h"
#include "ir/graph/builder.h"
#include "ir/target/target_rules.h"

namespace moec {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSmall = R"({
  "name": "small", "unit": "cpu", "format": "onnx", "dtype": "f32", "projection": "matmul",
  "sum": "tree", "attention": "per_head", "has_state": true, "min_coverage": 90,
  "chips": [{"family": "c1", "chips": ["one"], "about": "the first"}],
  "rules": [
    {"id": "X1", "condition": "extent_above", "limit": 64, "axes": ["width"], "chips": ["c1"],
     "severity": "warning", "unit": "host",
     "reason": "too wide", "confidence": "folklore", "source": "a test"},
    {"id": "X2", "condition": "dtype_is", "dtypes": ["f16"], "ops": ["binary"], "severity": "error",
     "unit": "", "reason": "no f16", "confidence": "measured", "source": "a test"},
    {"id": "X3", "condition": "weight_bytes_above", "limit": 9, "kinds": ["moe", "mlp"],
     "severity": "error", "unit": "", "reason": "big", "confidence": "measured", "source": "a test"}
  ]
})";

std::string target_text_with(std::string_view from, std::string_view to) {
  std::string text(kSmall);
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Diagnostic error_of(const std::string& text) {
  auto target = load_target(text, "my.json");
  if (target) return {};
  EXPECT_EQ(target.error().size(), 1u);
  EXPECT_EQ(target.error().front().place.file, "my.json");
  return target.error().front();
}

constexpr std::string_view kWithForms = R"("four_bits": "int4-lut:g8",
  "weights": [
    {"forms": ["int8", "int4-lut:g*"], "projections": ["conv"], "severity": "warning",
     "reason": "unsure", "confidence": "folklore", "source": "a test"}
  ],
  "rules")";

TEST(LoadTarget, ReadsWeightForms) {
  auto target = load_target(target_text_with("\"rules\"", kWithForms));
  ASSERT_TRUE(target) << render(target.error());
  EXPECT_EQ(target->four_bits, WeightForm(PaletteForm{4, 8}));
  EXPECT_EQ(target->weights, (std::vector<TargetWeightForms>{{{"int8", "int4-lut:g*"},
                                                              {ProjectionForm::conv},
                                                              Severity::warning,
                                                              "unsure",
                                                              "folklore",
                                                              "a test"}}));
  EXPECT_TRUE(load_target(kSmall)->weights.empty());
}

TEST(LoadTarget, ReadsTheQuantizedMatmulRank) {
  const auto of_rank = [](std::string_view rank) {
    return target_text_with("\"rules\"",
                            "\"coded_matmul_rank\": " + std::string(rank) + ", \"rules\"");
  };
  EXPECT_EQ(load_target(kSmall)->engine.coded_matmul_rank, 2);
  EXPECT_EQ(load_target(of_rank("3"))->engine.coded_matmul_rank, 3);
  EXPECT_THAT(error_of(of_rank("4")).cause, HasSubstr("must be 2 or 3"));
}

TEST(LoadTarget, RejectsUnknownWeightForms) {
  const std::string text = target_text_with("\"rules\"", kWithForms);
  const auto edited = [&](std::string_view from, std::string_view to) {
    std::string other = text;
    return error_of(other.replace(other.find(from), from.size(), to)).cause;
  };
  EXPECT_THAT(edited("\"int8\"", "\"int9\""), HasSubstr("unknown form \"int9\""));
  EXPECT_THAT(edited("int4-lut:g*", "int4:g*"), HasSubstr("unknown form \"int4:g*\""));
  EXPECT_THAT(edited("\"conv\"", "\"gemm\""), HasSubstr("gemm"));
  EXPECT_THAT(edited("int4-lut:g8", "int5-lut"), HasSubstr("four_bits"));
}

TEST(LoadTarget, ReadsEveryField) {
  auto target = load_target(kSmall);
  ASSERT_TRUE(target) << render(target.error());
  EXPECT_EQ(target->name, "small");
  EXPECT_EQ(target->unit, "cpu");
  EXPECT_EQ(target->projection, ProjectionForm::matmul);
  EXPECT_EQ(target->sum, SumForm::tree);
  EXPECT_EQ(target->attention, AttentionForm::per_head);
  EXPECT_TRUE(target->has_state);
  EXPECT_EQ(target->min_coverage, 90);
  ASSERT_EQ(target->chips.size(), 1u);
  EXPECT_EQ(target->chips[0].name, "c1");
  EXPECT_EQ(target->chips[0].chips, std::vector<std::string>{"one"});
  ASSERT_EQ(target->rules.size(), 3u);
  EXPECT_EQ(target->rules[0].limit, 64);
  EXPECT_EQ(target->rules[0].severity, Severity::warning);
  EXPECT_EQ(target->rules[0].unit, "host");
  EXPECT_EQ(target->rules[0].axes, std::vector<Axis>{Axis::width});
  EXPECT_EQ(target->rules[0].chips, std::vector<std::string>{"c1"});
  EXPECT_EQ(target->rules[1].dtypes, std::vector<DType>{DType::f16});
  EXPECT_EQ(target->rules[1].ops, OpSet::named("binary"));
  EXPECT_EQ(target->rules[2].kinds, (std::vector<ShardKind>{ShardKind::moe, ShardKind::mlp}));
  EXPECT_EQ(target->rules[1].confidence, "measured");
}

TEST(LoadTarget, RejectsUnknownFieldsAndValues) {
  EXPECT_EQ(error_of(target_text_with("\"unit\": \"cpu\"", "\"place\": \"cpu\"")).code,
            "target.missing_field");
  EXPECT_EQ(
      error_of(target_text_with("\"sum\": \"tree\"", "\"sum\": \"tree\", \"colour\": 1")).code,
      "target.unknown_field");
  EXPECT_EQ(
      error_of(target_text_with("\"limit\": 64", "\"limit\": 64, \"dtypes\": [\"f16\"]")).code,
      "target.unknown_field");
  EXPECT_EQ(error_of(target_text_with("\"limit\": 64", "\"limit\": -1")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("\"f16\"", "\"f17\"")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("\"binary\"", "\"ad\"")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("\"width\"", "\"breadth\"")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("[\"c1\"]", "[\"c2\"]")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("\"mlp\"", "\"mpl\"")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("90", "101")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("\"limit\": 9", "\"ops\": [\"add\"], \"limit\": 9")).code,
            "target.unknown_field");
  EXPECT_EQ(error_of(target_text_with("X2", "X1")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("folklore", "certain")).code, "target.bad_value");
  EXPECT_EQ(error_of(target_text_with("true", "\"yes\"")).code, "target.bad_value");
  EXPECT_EQ(
      error_of(target_text_with("\"name\": \"small\"", "\"name\": \"small\", \"name\": \"big\""))
          .code,
      "target.duplicate_key");
  EXPECT_EQ(error_of("[]").code, "target.bad_value");
  EXPECT_EQ(error_of("{\"a\": 1e999}").code, "target.syntax");
  EXPECT_EQ(error_of(target_text_with("\"limit\": 64", "\"limit\": 99999999999999999999")).code,
            "target.syntax");
  EXPECT_EQ(error_of(std::string(kSmall) + "{}").code, "target.syntax");
  EXPECT_EQ(error_of(std::string(kSmall) + '\0').code, "target.syntax");
  EXPECT_EQ(error_of(std::string(100000, '[')).code, "target.syntax");
}

// A file that extends `base` with the fields of `text`.
std::string extension_of(std::string_view base, std::string_view text = "") {
  return fmt::format(R"({{"name": "mine", "extends": "{}"{}}})", base, text);
}

TEST(LoadTarget, ExtendsBuiltinTargets) {
  const Target base = builtin_target("qnn").value();
  const auto target = load_target(extension_of("qnn", R"(, "dtype": "f32", "min_coverage": 7)"));
  ASSERT_TRUE(target) << render(target.error());
  EXPECT_EQ(target->name, "mine");
  EXPECT_EQ(target->dtype, DType::f32);
  EXPECT_EQ(target->min_coverage, 7);
  EXPECT_EQ(target->unit, base.unit);
  EXPECT_EQ(target->rules.size(), base.rules.size());
  EXPECT_EQ(target->chips.size(), base.chips.size());
  EXPECT_EQ(target->weights.size(), base.weights.size());
  EXPECT_EQ(target->limits, base.limits);
}

TEST(LoadTarget, ReplacesInheritedRulesById) {
  const auto rule = [](std::string_view id) {
    return fmt::format(R"(, "rules": [{{"id": "{}", "condition": "op_is", "ops": ["exp"],
      "severity": "note", "unit": "", "reason": "mine", "confidence": "folklore",
      "source": "s"}}])",
                       id);
  };
  const Target base = builtin_target("litert").value();
  const Target replaced = load_target(extension_of("litert", rule("L2"))).value();
  EXPECT_EQ(replaced.rules.size(), base.rules.size());
  EXPECT_EQ(replaced.rules[1].reason, "mine");
  const Target added = load_target(extension_of("litert", rule("X1"))).value();
  EXPECT_EQ(added.rules.size(), base.rules.size() + 1);
  EXPECT_EQ(added.rules.back().id, "X1");
}

TEST(LoadTarget, RejectsWrongExtensions) {
  EXPECT_THAT(error_of(extension_of("liter")).cause, HasSubstr("must be one of ane, "));
  EXPECT_THAT(error_of(extension_of("qnn", R"(, "chips": [])")).cause,
              HasSubstr("unknown chip family"));
  EXPECT_EQ(error_of(extension_of("qnn", R"(, "colour": 1)")).code, "target.unknown_field");
}

TEST(LoadTarget, NamesTheFieldAndItsChoices) {
  const Diagnostic error = error_of(target_text_with("\"tree\"", "\"bush\""));
  EXPECT_THAT(error.cause, HasSubstr("field \"sum\" is \"bush\", must be one of chain, tree"));
}

TEST(LoadTarget, NamesTheLineOfFieldErrors) {
  const Diagnostic error = error_of(target_text_with("\"folklore\"", "\"certain\""));
  EXPECT_THAT(error.cause, HasSubstr("field \"rules[0].confidence\" is \"certain\""));
  EXPECT_EQ(error.place.line, 8u);
}

TEST(LoadTarget, SuggestsTheNearestField) {
  const Diagnostic error =
      error_of(target_text_with("\"limit\": 64", "\"limit\": 64, \"reasons\": \"\""));
  EXPECT_THAT(error.cause, HasSubstr("\"rules[0].reasons\" is unknown (did you mean 'reason'?)"));
}

TEST(LoadTarget, NamesTheLineOfSyntaxErrors) {
  const Diagnostic error = error_of("{\n  \"name\": \"a\"\n  \"unit\": \"b\"\n}");
  EXPECT_EQ(error.code, "target.syntax");
  EXPECT_EQ(error.place.line, 3u);
  EXPECT_EQ(error.place.column, 9u);  // past the string that follows the missing comma
}

TEST(BuiltinTarget, SuggestsKnownTargetNames) {
  auto target = builtin_target("onx");
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().front().code, "target.unknown");
  EXPECT_THAT(target.error().front().cause, HasSubstr("did you mean 'onnx'"));
  EXPECT_THAT(target.error().front().next_step, HasSubstr("onnx"));
}

TEST(BuiltinTarget, OnnxIsStatelessAndPrefersConvs) {
  auto target = builtin_target("onnx");
  ASSERT_TRUE(target) << render(target.error());
  EXPECT_EQ(target->name, "onnx");
  EXPECT_EQ(target->projection, ProjectionForm::conv);
  EXPECT_EQ(target->sum, SumForm::chain);
  EXPECT_FALSE(target->has_state);
  EXPECT_FALSE(target->limits.no_casts);
}

// Ids of the rules that the first op with the mnemonic `op_name` breaks.
std::string broken(DType dtype, std::string_view op_name) {
  Builder b("s", Form::static_ops);
  ValueId x = b.input("x", token_type(dtype, Layout::channels, 4, 2));
  ValueId w = b.weight(splat_view(1, {dtype, {3, 4, 1, 1}}));
  ValueId y = b.emit(Conv{}, {x, w});
  y = b.binary(BinaryFn::max, y, y);
  y = b.slice(b.add(y, y), 1, 0, 2);
  b.output("y", y);
  const Shard shard = b.finish();
  const Target target = builtin_target("onnx").value();
  std::string rules;
  for (const auto& [op, rule] : find_breaches(target, shard))
    if (mnemonic(shard.ops[op].data) == op_name) rules += rule->id;
  return rules;
}

TEST(BuiltinTarget, OnnxRulesFlagUnsupportedOps) {
  for (const char* op : {"weight", "conv", "max", "add", "slice"})
    EXPECT_EQ(broken(DType::f32, op), "") << op;
  EXPECT_EQ(broken(DType::f16, "conv"), "O5");
  EXPECT_EQ(broken(DType::f16, "add"), "O5");
  EXPECT_EQ(broken(DType::f16, "max"), "");
  EXPECT_EQ(broken(DType::f16, "slice"), "");
  EXPECT_EQ(broken(DType::f16, "weight"), "");
  EXPECT_EQ(broken(DType::bf16, "conv"), "O3");
  EXPECT_EQ(broken(DType::bf16, "add"), "O4");
  EXPECT_EQ(broken(DType::bf16, "slice"), "");
}

TEST(BuiltinTarget, OnnxRejectsF8AndState) {
  Builder b("s", Form::static_ops);
  b.state("k", {DType::f32, {2}});
  b.output("k_out", b.emit(StateRead{"k"}, {}));                             // op 0
  b.output("eight", b.weight(tensor_view("eight", {DType::f8_e4m3, {2}})));  // op 1
  const Shard shard = b.finish();
  const Target target = builtin_target("onnx").value();
  const auto breaches = find_breaches(target, shard);
  ASSERT_EQ(breaches.size(), 2u);
  EXPECT_EQ(breaches[0].rule->id, "O1");
  EXPECT_EQ(breaches[1].rule->id, "O2");
}

TEST(BuiltinTarget, AneUsesF16AndState) {
  const auto target = builtin_target("ane");
  ASSERT_TRUE(target) << render(target.error());
  EXPECT_EQ(target->format, ShardFormat::coreml);
  EXPECT_EQ(target->dtype, DType::f16);
  EXPECT_EQ(target->attention, AttentionForm::per_head);
  EXPECT_TRUE(target->has_state);
  EXPECT_EQ(target->min_coverage, 100);
  EXPECT_EQ(target->limits,
            (TargetLimits{.channels = 65536, .extent = 16384, .fan_in = 11, .no_casts = true}));
  EXPECT_EQ(for_chip(*target, "m4").value().limits.extent, 65536);
  for (const char* chip : {"m1", "m2", "m3", "m4", "m5", "a13", "a17"})
    EXPECT_TRUE(for_chip(*target, chip)) << chip;
}

}  // namespace
}  // namespace moec
