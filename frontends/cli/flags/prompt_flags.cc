#include "frontends/cli/flags/prompt_flags.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

namespace moec {
namespace {

constexpr const char* kStandardInput = "-";

Result<std::string> read_text(const std::string& path) {
  std::ostringstream text;
  if (path == kStandardInput) {
    text << std::cin.rdbuf();
    return text.str();
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return fail("run.prompt_file", "the path is a folder", "give --prompt-file a file, or -",
                {.file = path});
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fail("run.prompt_file", "the file cannot be opened", "give --prompt-file a file, or -",
                {.file = path});
  text << file.rdbuf();
  return text.str();
}

}  // namespace

void add_prompt_flags(CLI::App& command, PromptFlags& flags) {
  CLI::Option* text = command.add_option("-p,--prompt", flags.text,
                                         "Text to start from; for models whose tokens are bytes");
  CLI::Option* file = command.add_option("--prompt-file", flags.file,
                                         "Read that text from a file; - is the standard input");
  command
      .add_option("--prompt-tokens", flags.tokens,
                  "Token ids to start from instead of text, e.g. 1,2,3 or 1 2 3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(text)
      ->excludes(file);
  text->excludes(file);
}

// Whether the model takes text is asked before the file is read: standard input could block.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest) {
  if (!flags.tokens.empty()) return prompt_of_tokens("--prompt-tokens", flags.tokens, manifest);
  MOEC_TRY(check_takes_text(manifest));
  if (flags.file.empty()) return prompt_of_text(flags.text, manifest);
  MOEC_ASSIGN(std::string text, read_text(flags.file));
  return prompt_of_text(std::move(text), manifest);
}

}  // namespace moec
