// Suites of prompts: documents of a few categories, so that shares of experts can be told apart.
//
// A suite is a text of lines, each a JSON object with a category and a text, or token ids:
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

// The name of the bundled suite: code, prose, arithmetic and records, as
// scripts/make_prompt_suite.py made them.
inline constexpr const char* kDefaultSuite = "default";

struct SuitePrompt {
  std::string category;
  std::optional<std::string> text;
  std::vector<int64_t> tokens;  // where there is no text
};

// The lines of the bundled suite.
std::string_view default_suite_text();

// Errors: analyze.prompts, with file and line (no JSON object, no category, neither text nor tokens
// or both, an empty one), and for a text without a prompt.
Result<std::vector<SuitePrompt>> parse_prompt_suite(std::string_view text, const std::string& file);

// The bundled suite of that name, or the file. Errors: analyze.text (the file cannot be read), and
// those of parse_prompt_suite().
Result<std::vector<SuitePrompt>> read_prompt_suite(const std::string& name);

}  // namespace moec
