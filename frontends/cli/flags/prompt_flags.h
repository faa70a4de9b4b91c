// The flags that give a command a prompt.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/runtime/text/prompt.h"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace moec {

struct PromptFlags {
  std::optional<std::string> text;
  std::string file;  // "-" is the standard input; empty: no file was given
  std::vector<int64_t> tokens;
};

void add_prompt_flags(CLI::App& command, PromptFlags& flags);

// The text that the flags give, from the file if one is named. Error run.prompt_file.
Result<std::optional<std::string>> read_prompt_text(const PromptFlags& flags);

// Reads the file if one is named. Errors: run.prompt_file, those of backends/runtime/text/prompt.h.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest,
                           const ModelTokenizer& tokenizer);

}  // namespace moec
