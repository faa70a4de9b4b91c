// Suites of prompts: documents in several categories, for comparing the use of experts between
// categories.
//
// Each line of a suite is a JSON object with a category and either a text or token ids:
//
//   {"category": "code", "text": "def f(x):\n    return x\n"}
//   {"category": "code", "tokens": [17, 4, 250]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Name of the bundled suite (code, prose, arithmetic and records), which
// scripts/make_prompt_suite.py generates.
inline constexpr const char* kDefaultSuite = "default";

struct SuitePrompt {
  std::string category;
  std::optional<std::string> text;
  std::vector<int64_t> tokens;  // used if `text` is absent
  Place place;                  // its file and line
};

// Text of the bundled suite.
std::string_view default_suite_text();

// Parses a suite; empty lines are skipped. Error: analyze.prompts if there is no prompt or a line
// is invalid. A line must be a JSON object with a category and either text or tokens, all not
// empty; the message has the line number.
Result<std::vector<SuitePrompt>> parse_prompt_suite(std::string_view text, const std::string& file);

// Reads the bundled suite if `name` is kDefaultSuite, otherwise the file `name`. Errors:
// analyze.text (the file cannot be read); those of parse_prompt_suite().
Result<std::vector<SuitePrompt>> read_prompt_suite(const std::string& name);

}  // namespace moec
