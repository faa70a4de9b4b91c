// The text that `moec run` is given, and its tokens.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct PromptFlags {
  std::optional<std::string> text;
  std::string file;
  std::vector<int64_t> tokens;
};

void add_prompt_flags(CLI::App& command, PromptFlags& flags);

struct Prompt {
  std::vector<int64_t> tokens;
  std::optional<std::string> text;  // whose bytes the tokens are
};

// Error run.token where the model has no token of this id, which `flag` gave.
Status check_token(std::string_view flag, int64_t token, const Manifest& manifest);

// An empty text has no labels, but no text can be written from it. Errors: run.no_tokenizer,
// run.no_prompt, run.prompt_file, run.token.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest);

}  // namespace moec
