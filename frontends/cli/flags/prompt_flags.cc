#include "frontends/cli/flags/prompt_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <iostream>

#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kStandardInput = "-";

// Reads in pieces with a limit: standard input has no known size and may never end.
Result<std::string> read_standard_input() {
  std::string text;
  std::array<char, 1 << 16> piece{};
  // read() fails at the end of the input, but may have read a last, shorter piece.
  while (std::cin.read(piece.data(), piece.size()) || std::cin.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(std::cin.gcount()));
    if (text.size() > kMaxUserTextBytes)
      return fail("run.prompt_file",
                  fmt::format("the text on standard input exceeds {} bytes", kMaxUserTextBytes),
                  "pass a shorter text");
  }
  return text;
}

Result<std::string> read_text(const std::string& path) {
  if (path == kStandardInput) return read_standard_input();
  Result<std::string> text = read_text_file(path, kMaxUserTextBytes);
  // The cause of the reader is kept, but the next step names the flag.
  if (!text)
    return fail("run.prompt_file", text.error().front().cause,
                "pass --prompt-file with a readable file, or with - for standard input",
                {.file = path});
  return text;
}

}  // namespace

void add_prompt_flags(CLI::App& command, PromptFlags& flags) {
  CLI::Option* text = command.add_option("-p,--prompt", flags.text, "Text of the prompt");
  CLI::Option* file = command.add_option("--prompt-file", flags.file,
                                         "Read the prompt from this file; -: from standard input");
  command.add_option("--prompt-tokens", flags.tokens, "Prompt as token ids, e.g. 1,2,3 or 1 2 3")
      ->delimiter(',')
      // join_lists() has joined the ids, so a further word is not one of them.
      ->allow_extra_args(false)
      ->excludes(text)
      ->excludes(file);
  text->excludes(file);
}

Result<std::optional<std::string>> read_prompt_text(const PromptFlags& flags) {
  // --prompt and --prompt-file exclude each other.
  if (flags.file.empty()) return flags.text;
  return read_text(flags.file).map([](std::string&& text) {
    return std::optional(std::move(text));
  });
}

// Checks that the model accepts text before reading the file, because standard input could block.
Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest,
                           const ModelTokenizer& tokenizer) {
  // Token ids need no tokenizer.
  if (!flags.tokens.empty()) return prompt_of_tokens("--prompt-tokens", flags.tokens, manifest);
  MOEC_TRY(check_takes_text(tokenizer));
  MOEC_ASSIGN(std::optional<std::string> text, read_prompt_text(flags));
  return prompt_of_text(std::move(text), manifest, tokenizer);
}

}  // namespace moec
