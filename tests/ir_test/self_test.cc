#include "tests/ir_test/self_test.h"

#include <fmt/format.h>

#include "ir/text/text.h"
#include "tests/ir_test/compare_values.h"
#include "tests/ir_test/line_diff.h"
#include "tests/ir_test/run_case.h"

namespace moec::ir_test {
namespace {

constexpr std::string_view kGood =
    "shard a static {\n  input %x : f32[2]\n  %e = exp %x : f32[2]\n  output y = %e\n}\n";
constexpr std::string_view kOther =
    "shard a static {\n  input %x : f32[2]\n  %e = neg %x : f32[2]\n  output y = %e\n}\n";

struct SelfTest {
  std::string_view name;
  std::string text;
  std::string_view failure;  // in the only failure's message; empty: the case passes
};

const SelfTest kTests[] = {
    {"a valid shard", std::string(kGood), ""},
    {"print", fmt::format("// run: print\n{}// expect\n{}", kGood, kGood), ""},
    {"a wrong expectation", fmt::format("// run: print\n{}// expect\n{}", kGood, kOther),
     "-   %e = neg %x : f32[2]\n+   %e = exp %x : f32[2]\n"},
    {"a missing expectation", fmt::format("// run: print\n{}", kGood), "'// expect' is missing"},
    {"an expectation without output", fmt::format("{}// expect\n{}", kGood, kGood),
     "prints nothing"},
    {"an expected finding",
     "shard a static {\n  input %x : i64[2]\n  %e = exp %x : i64[2] // error: unary.c2\n}\n", ""},
    {"an unexpected finding", "shard a static {\n  input %x : i64[2]\n  %e = exp %x : i64[2]\n}\n",
     "line 3: unexpected error[unary.c2]"},
    {"a finding on another line", "shard a static {\n  input %x : f32[2] // error: shard.s3\n}\n",
     "line 2: expected finding shard.s3, got none"},
    {"an expected syntax error",
     "shard a static {\n  inptu %x : f32[2] // error: text.unknown_op\n", ""},
    {"an unexpected syntax error", "shard a static {\n", "unexpected error[text.syntax]"},
    {"an unknown pass", fmt::format("// run: lower_everything\n{}", kGood), "lower_everything"},
    {"an unknown option", fmt::format("// run: eliminate_dead rooting=rank\n{}", kGood), "rooting"},
    {"a pass that should fail",
     fmt::format("// run: eliminate_dead\n// error-pass: x.y\n{}", kGood),
     "expected x.y, the passes succeeded"},
    {"a pass that fails in another way",
     fmt::format("// run: unroll_experts\n// error-pass: x.y\n{}", kGood), "expected x.y, got"},
    {"an unknown check", fmt::format("// check: value\n{}", kGood),
     "unknown header '// check: value'"},
};

bool check(const SelfTest& test) {
  const Outcome outcome = run_case(parse_cases(test.text).front(), "self");
  const auto& failures = outcome.failures;
  const bool good = test.failure.empty() ? failures.empty()
                                         : failures.size() == 1 &&
                                               failures[0].find(test.failure) != std::string::npos;
  if (good) return true;
  fmt::print("{}: expected '{}', got {} failures\n", test.name, test.failure, failures.size());
  for (const std::string& failure : failures) fmt::print("  {}\n", failure);
  return false;
}

bool expect(bool condition, std::string_view what) {
  if (!condition) fmt::print("{}\n", what);
  return condition;
}

bool check_cases() {
  const std::string file =
      fmt::format("// run: print\n{}// expect\n{}// ----\n{}", kGood, kOther, kGood);
  auto cases = parse_cases(file);
  bool good = expect(cases.size() == 2 && cases[1].first_line == 14, "cases are split wrongly");
  good &= expect(render_cases(cases) == file, "an unchanged file is not rendered as it was");
  cases[0].expected = run_case(cases[0], "self").printed;
  good &= expect(cases[0].expected == kGood && run_case(cases[0], "self").failures.empty(),
                 "an updated expectation does not hold");
  return good;
}

bool check_values_differ() {
  const Shard good = *parse_shard(kGood), other = *parse_shard(kOther);
  const bool equal =
      expect(compare_values(good, good).empty(), "equal values are reported as different");
  return equal &&
         expect(compare_values(good, other).size() == 3, "unequal values are reported as equal");
}

bool check_diff() {
  return expect(line_diff("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nd\nE\nf\ng\n") ==
                    "  …\n  c\n  d\n- e\n+ E\n  f\n+ g\n",
                "the line diff is wrong");
}

}  // namespace

int self_test() {
  bool good = check_cases() && check_values_differ() && check_diff();
  for (const SelfTest& test : kTests) good &= check(test);
  fmt::print("self-test {}\n", good ? "passed" : "failed");
  return good ? 0 : 1;
}

}  // namespace moec::ir_test
