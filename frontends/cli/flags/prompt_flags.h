// The flags for the prompt of a command.
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
  std::string file;  // "-": standard input; empty: not given
  std::vector<int64_t> tokens;
};

void add_prompt_flags(CLI::App& command, PromptFlags& flags);

// Returns the text of --prompt-file or --prompt; nullopt without either. Error run.prompt_file.
Result<std::optional<std::string>> read_prompt_text(const PromptFlags& flags);

// Returns the prompt, reading --prompt-file if it is given. Errors: run.prompt_file, those of
// backends/runtime/text/prompt.h.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest,
                           const ModelTokenizer& tokenizer);

}  // namespace moec
