// The file format of `.ir` tests. A file holds cases, separated by a line `// ----`:
//
//   // run: lower_router,linear_to_conv routing=iterate     passes and PassOptions, or `verify`
//   // check: values                                        or `print` without passes
//   shard a model { … }
//   // expect
//   shard a static { … }                                    compared exactly with the result
//
// A case without `// run:` is verified. Its input must verify, except for the findings that are
// named at the end of their line: `// error: conv.c1`. Several codes are separated by spaces. `//
// error-pass: code` requires that the passes fail with a diagnostic of this code. `// check:
// values` evaluates input and result on seeded inputs and compares the outputs.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moec::ir_test {

// A finding: its line and its code.
using ExpectedError = std::pair<uint32_t, std::string>;

struct TestCase {
  uint32_t first_line = 1;  // in the file
  std::string input;        // everything before `// expect`, including comments
  std::string run;          // "verify", "print" or names of passes
  std::vector<std::string> options;
  bool check_values = false;
  std::set<ExpectedError> errors;
  std::string pass_error;                // empty: the passes succeed
  std::optional<std::string> expected;   // the text after `// expect`
  std::vector<std::string> bad_headers;  // unknown header lines
};

std::vector<TestCase> parse_cases(std::string_view text);

// The inverse of parse_cases(), for --update.
std::string render_cases(const std::vector<TestCase>& cases);

}  // namespace moec::ir_test
