#include "frontends/cli/flags/prompt_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>

#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kStandardInput = "-";

// Standard input may be a pipe or a terminal, and may have no end.
Result<std::string> read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> piece{};
  while (std::cin.read(piece.data(), piece.size()) || std::cin.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kMaxUserTextBytes)
      return fail("run.prompt_file",
                  fmt::format("the text on standard input exceeds {} bytes", kMaxUserTextBytes),
                  "give a shorter text");
  }
  return text;
}

Result<std::string> read_text(const std::string& path) {
  if (path == kStandardInput) return read_standard_input();
  Result<std::string> text = read_text_file(path, kMaxUserTextBytes);
  if (!text)
    return fail("run.prompt_file", text.error().front().cause, "give --prompt-file a file, or -",
                {.file = path});
  return text;
}

}  // namespace

void add_prompt_flags(CLI::App& command, PromptFlags& flags) {
  CLI::Option* text = command.add_option("-p,--prompt", flags.text, "Text to start from");
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

Result<std::optional<std::string>> read_prompt_text(const PromptFlags& flags) {
  if (flags.file.empty()) return flags.text;
  return read_text(flags.file).map([](std::string&& text) {
    return std::optional(std::move(text));
  });
}

// Whether the model takes text is asked before the file is read: standard input could block.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest,
                           const ModelTokenizer& tokenizer) {
  if (!flags.tokens.empty()) return prompt_of_tokens("--prompt-tokens", flags.tokens, manifest);
  MOEC_TRY(check_takes_text(tokenizer));
  MOEC_ASSIGN(std::optional<std::string> text, read_prompt_text(flags));
  return prompt_of_text(std::move(text), manifest, tokenizer);
}

}  // namespace moec
