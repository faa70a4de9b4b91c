// The text that `moec run` is given, and its tokens.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct PromptFlags {
  std::string text, file;
  std::vector<int64_t> tokens;
};

void add_prompt_flags(CLI::App& command, PromptFlags& flags);

struct Prompt {
  std::vector<int64_t> tokens;
  std::optional<std::string> text;  // whose bytes the tokens are
};

// Errors: run.no_tokenizer, run.no_prompt, run.prompt_file.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest);

}  // namespace moec
