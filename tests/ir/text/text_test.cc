#include "ir/text/text.h"

#include <gtest/gtest.h>

#include "ir/verify/verify.h"

namespace moec {
namespace {

// The canonical text: print(parse(t)) == t, and parse(print(s)) == s.
void expect_round_trip(const std::string& text) {
  auto shard = parse_shard(text);
  ASSERT_TRUE(shard) << render(shard.error());
  EXPECT_EQ(print(*shard), text);
  auto again = parse_shard(print(*shard));
  ASSERT_TRUE(again) << render(again.error());
  EXPECT_EQ(*again, *shard);
}

std::string rendered_error(std::string_view text) {
  auto shard = parse_shard(text, {.file = "f.ir"});
  return shard ? "parsed" : render(shard.error());
}

std::string view_round_trip(std::string_view text) {
  auto view = parse_view(text);
  return view ? to_string(*view) : render(view.error());
}

TEST(Text, RoundTripsAllSections) {
  expect_round_trip(R"(shard L00.moe static {
  input %hidden : f32[1,64,8,1]{channels}
  input %x : f16[]
  state k_state : f32[3]
  %w = weight @model.layers.0.mlp.gate.weight:bf16[8,64] | cast(f32) | reshape(8, 64, 1, 1) : f32[8,64,1,1]
  %3 = conv %hidden, %w {groups = 1} : f32[1,8,8,1]{channels}
  %values, %5 = topk %3 {k = 2, axis = 1} : f32[1,2,8,1]{channels}, i64[1,2,8,1]{channels}
  %6 = constant {type = f32[3], values = [1, -inf, 1e-300]} : f32[3]
  %experts.0.gate = reshape %values {dims = [2, 8], layout = rows} : f32[2,8]{rows}
  %8 = state_read {state = "k_state"} : f32[3]
  %9 = reduce_sum %8 {axis = 0} : f32[1]
  state_write %6 {state = "k_state"}
  output moe_out = %values
  output 0.b = %9
}
)");
}

TEST(Text, RoundTripsAnEmptyShard) { expect_round_trip("shard a model {\n}\n"); }

TEST(Text, AcceptsAnySpacingAndValueNumbers) {
  auto shard = parse_shard(
      "// head\nshard a static{input %x:f32[2] // an input\n%77=exp %x{}:f32[2]"
      "%007 = add %77, %x : f32[2]\noutput y=%007}");
  ASSERT_TRUE(shard) << render(shard.error());
  EXPECT_EQ(print(*shard),
            "shard a static {\n  input %x : f32[2]\n  %1 = exp %x : f32[2]\n"
            "  %2 = add %1, %x : f32[2]\n  output y = %2\n}\n");
}

TEST(Text, AcceptsAttributesInAnyOrder) {
  auto shard = parse_shard(
      "shard a static {\ninput %x : f32[1,4,2,1]{channels}\n"
      "%v, %i = topk %x {axis = 1, k = 2} : f32[1,2,2,1], i64[1,2,2,1]\n"
      "%r = router %x {top_k = 2} : f32[1]\n}");
  ASSERT_TRUE(shard) << render(shard.error());
  EXPECT_EQ(std::get<TopK>(shard->ops[OpId{0}].data), (TopK{2, 1}));
  Router expected;
  expected.top_k = 2;
  EXPECT_EQ(std::get<Router>(shard->ops[OpId{1}].data), expected);
}

TEST(Text, ReportsTheLineOfEachElement) {
  LineMap lines;
  ParseOptions options;
  options.first_line = 10;
  options.lines = &lines;
  ASSERT_TRUE(
      parse_shard("shard a static {\n input %x : f32[2]\n state s : f32[2]\n\n"
                  " %9 = exp %x : f32[2]\n state_write %9 {state = \"s\"}\n output y = %9\n}",
                  options));
  EXPECT_EQ(
      lines,
      (LineMap{{"", 10}, {"x", 11}, {"state s", 12}, {"1", 14}, {"#1", 15}, {"output y", 16}}));
}

TEST(Text, PrintsFindingsUnderTheirLines) {
  auto shard = parse_shard(
      "shard a static {\ninput %x : f32[2]\n%1 = exp %x : f32[2]\n"
      "output y = %1\n}");
  ASSERT_TRUE(shard);
  Diagnostics findings = {{Severity::error, "unary.c2", "wrong", "", {.op = "1"}},
                          {Severity::warning, "w", "odd", "", {.op = "output y"}},
                          {Severity::error, "shard.s3", "no place", "", {}}};
  const std::string text = print_with_findings(*shard, findings);
  EXPECT_EQ(text,
            "shard a static {\n  // ^ error[shard.s3]: no place\n  input %x : f32[2]\n"
            "  %1 = exp %x : f32[2]\n  // ^ error[unary.c2]: wrong\n"
            "  output y = %1\n  // ^ warning[w]: odd\n}\n");
  EXPECT_EQ(*parse_shard(text), *shard);
}

TEST(Text, ReplacesLineBreaksInFindings) {
  auto shard = parse_shard("shard a static {\n%1 = state_read {state = \"s\\x0a}\"} : f32[2]\n}");
  ASSERT_TRUE(shard) << render(shard.error());
  const Diagnostics findings = verify(*shard);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_NE(findings[0].cause.find('\n'), std::string::npos);
  EXPECT_EQ(*parse_shard(print_with_findings(*shard, findings)), *shard);
}

TEST(Text, PrintsIdsOutOfRange) {
  Shard shard;
  shard.name = "a";
  shard.inputs.push_back(ValueId{3});
  shard.ops.push({Unary{UnaryFn::exp}, {ValueId{7}}, {ValueId{}}});
  EXPECT_EQ(print(shard), "shard a model {\n  input %?3 : ?\n  %?4294967295 = exp %?7 : ?\n}\n");
}

TEST(Text, RoundTripsViews) {
  for (std::string text : {
           "@a:f32[]",
           "@\"a b\\\"\\\\\\xff\":f8_e4m3[4,4] | dequant(2, 2; @s:f32[2,2]) | cast(f16)",
           "concat(0; @a:bf16[4,8], seeded(18446744073709551615):bf16[4,8]) | permute(1, 0)",
           "concat(-1;)",
           "splat(-0.1):f32[8] | scale(1e+20) | slice(0, 1, 2) | reshape(2, 1)",
           "splat(inf):f16[1] | reshape()",
           "@a:u8[4] | unpack(f4_e2m1) | dequant(32; @s:u8[1] | unpack(f8_e8m0))",
           "@a:i32[4] | unpack(i4_excess8)",
           "concat(1; concat(0; @a:f32[1,2], @b:f32[1,2]), @c:f32[2,2] | scale(0.5))",
       })
    EXPECT_EQ(view_round_trip(text), text);
}

TEST(Text, KeepsParsedStepsSeparate) {
  auto view = parse_view("@a:f32[4] | slice(0, 0, 4) | reshape(2, 2) | reshape(4)");
  ASSERT_TRUE(view);
  EXPECT_EQ(view->steps.size(), 3u);
}

TEST(Text, ParsesTypes) {
  EXPECT_EQ(*parse_type("f16[]"), (Type{DType::f16, {}}));
  EXPECT_EQ(*parse_type("bool[1,2,3,1]{channels}"),
            (Type{DType::boolean, {1, 2, 3, 1}, Layout::channels}));
  EXPECT_EQ(render(parse_type("f32[1] x").error()),
            "error[text.syntax] <text>:1:8: expected the end of the text, found 'x'");
}

// ---- Malformed text: message, line and column --------------------------------------------------

TEST(TextErrors, RejectsInvalidSyntax) {
  EXPECT_EQ(rendered_error(""),
            "error[text.syntax] f.ir:1:1: expected 'shard', found the end of the text");
  EXPECT_EQ(rendered_error("shard a static {\n  output y %x\n}"),
            "error[text.syntax] f.ir:2:12: expected '=', found '%x'");
  EXPECT_EQ(rendered_error("shard a static {\n  $\n}"),
            "error[text.syntax] f.ir:2:3: expected a statement or '}', found '$': an unexpected "
            "character");
  EXPECT_EQ(rendered_error("shard a static {\n} }"),
            "error[text.syntax] f.ir:2:3: expected the end of the text, found '}'");
  EXPECT_EQ(rendered_error("shard a static {\n %w = weight @\"abc\n : f32[1] }"),
            "error[text.syntax] f.ir:2:14: expected a @tensor or a source, found '@\\\"abc': a "
            "string without its closing quote");
  EXPECT_EQ(rendered_error("shard a static { %r = state_read {state = \"\\q\"} : f32[1] }"),
            "error[text.syntax] f.ir:1:43: expected a string in quotes, found '\\\"\\\\': an "
            "unknown escape; \\\", \\\\ and \\xhh are known");
  EXPECT_EQ(
      rendered_error("shard a static {\n input %x : f32[2] {rows}\n % }"),
      "error[text.syntax] f.ir:3:2: expected a statement or '}', found '%': a sign without a name");
}

TEST(TextErrors, RejectsUnknownNames) {
  EXPECT_EQ(rendered_error("shard a statik {}"),
            "error[text.unknown_word] f.ir:1:9: expected a form, found 'statik' (did you mean "
            "'static'?)\n  next: write one of model, lowered, static, placed");
  EXPECT_EQ(
      rendered_error("shard a static {\n  input %x : f32[2]\n  %y = redcue_sum %x : f32[1]\n}"),
      "error[text.unknown_op] f.ir:3:8: unknown op \"redcue_sum\" (did you mean "
      "'reduce_sum'?)\n  next: use an op of ir/OPS.md");
  EXPECT_EQ(rendered_error("shard a static {\n  input %x : f32[2]\n"
                           "  %y = softmax %x {axes = 1} : f32[2]\n}"),
            "error[text.unknown_attribute] f.ir:3:20: the op has no attribute \"axes\" (did you "
            "mean 'axis'?)\n  next: write one of axis");
  EXPECT_EQ(rendered_error("shard a static {\n  output y = %x\n}"),
            "error[text.unknown_value] f.ir:2:14: value %x is not defined above");
  EXPECT_EQ(rendered_error("shard a static {\n  input %x : fp32[2]\n}"),
            "error[text.unknown_word] f.ir:2:14: expected an element type, found 'fp32' (did you "
            "mean 'f32'?)\n  next: write one of f32, f16, bf16, i64, i32, u8, bool, f8_e4m3");
  EXPECT_EQ(
      rendered_error("shard a static {\n  %w = weight splut(1):f32[1] : f32[1]\n}"),
      "error[text.unknown_word] f.ir:2:15: expected a @tensor or a source, found 'splut' (did "
      "you mean 'splat'?)\n  next: write one of splat, seeded, concat");
}

TEST(TextErrors, RejectsRedefinitionsAndEarlyUses) {
  EXPECT_EQ(rendered_error("shard a static {\n  input %x : f32[2]\n  input %x : f32[2]\n}"),
            "error[text.redefined] f.ir:3:9: value %x is defined twice");
  EXPECT_EQ(rendered_error("shard a static {\n input %x : f32[2]\n"
                           " %y = softmax %x {axis = 0, axis = 0} : f32[2]\n}"),
            "error[text.redefined] f.ir:3:29: attribute 'axis' is given twice");
  EXPECT_EQ(rendered_error("shard a static {\n  input %x : f32[2]\n  output y = %x\n"
                           "  input %z : f32[2]\n}"),
            "error[text.order] f.ir:4:3: an input is out of order\n"
            "  next: write inputs, then states, then ops, then outputs");
}

TEST(TextErrors, RejectsInvalidNumbers) {
  EXPECT_EQ(rendered_error("shard a static {\n  input %x : f32[9223372036854775808]\n}"),
            "error[text.number] f.ir:2:18: '9223372036854775808' is not an integer\n"
            "  next: write an integer that fits into 64 bits");
  EXPECT_EQ(rendered_error("shard a static {\n  input %x : f32[1.5]\n}"),
            "error[text.number] f.ir:2:18: '1.5' is not an integer\n"
            "  next: write an integer that fits into 64 bits");
  EXPECT_EQ(render(parse_view("splat(1e999):f32[1]").error()),
            "error[text.number] <text>:1:7: '1e999' is not a number\n"
            "  next: write a number that fits into a double");
  EXPECT_EQ(render(parse_view("splat(nan):f32[1]").error()),
            "error[text.syntax] <text>:1:7: expected a number, found 'nan'");
  EXPECT_EQ(render(parse_view("seeded(-1):f32[1]").error()),
            "error[text.number] <text>:1:8: '-1' is not a non-negative integer\n"
            "  next: write an integer that fits into 64 bits");
}

TEST(TextErrors, LimitsViewNestingTo64) {
  auto nested = [](int depth) {
    std::string text = "@a:f32[1]";
    for (int i = 1; i < depth; ++i) text = "concat(0; " + text + ")";
    return parse_view(text);
  };
  EXPECT_TRUE(nested(64));
  EXPECT_EQ(render(nested(65).error()),
            "error[text.too_deep] <text>:1:641: views nest deeper than 64");
}

TEST(TextErrors, ShortensLongTokens) {
  const std::string message =
      rendered_error("shard a static {\n" + std::string(100000, 'q') + "\n}");
  EXPECT_LT(message.size(), 200u);
  EXPECT_NE(message.find("text.unknown_op"), std::string::npos);
}

TEST(TextErrors, LimitsValuesTo2To20) {
  std::string text = "shard a static {\n";
  for (size_t i = 0; i <= kMaxTextValues; ++i) text += "input %" + std::to_string(i) + ":f32[]\n";
  EXPECT_EQ(
      rendered_error(text),
      "error[text.too_many_values] f.ir:1048578:7: the text defines more than 1048576 values");
}

}  // namespace
}  // namespace moec
