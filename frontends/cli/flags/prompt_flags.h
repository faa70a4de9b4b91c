// The flags that give `moec run` its prompt.
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

// Reads the file if one is named. Errors: run.prompt_file, those of backends/runtime/text/prompt.h.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest);

}  // namespace moec
