#include "backends/runtime/prompt.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "backends/runtime/tokenizer.h"

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
    return fail("run.prompt_file", "this is a folder", "give --prompt-file a file, or -",
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
  CLI::Option* text = command.add_option("-p,--prompt", flags.text, "Text (byte models)");
  CLI::Option* file = command.add_option("--prompt-file", flags.file,
                                         "A file with the text; - is the standard input");
  command.add_option("--prompt-tokens", flags.tokens, "Token ids instead")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->excludes(text)
      ->excludes(file);
  text->excludes(file);
}

Status check_token(std::string_view flag, int64_t token, const Manifest& manifest) {
  const int64_t vocab = manifest.model.vocab;
  if (token >= 0 && token < vocab) return {};
  return fail("run.token", fmt::format("{} {}: the vocabulary has {} tokens", flag, token, vocab),
              fmt::format("token ids are 0 to {}", vocab - 1));
}

Result<Prompt> read_prompt(const PromptFlags& flags, const Manifest& manifest) {
  if (!flags.tokens.empty()) {
    for (int64_t token : flags.tokens) MOEC_TRY(check_token("--prompt-tokens", token, manifest));
    return Prompt{flags.tokens, std::nullopt};
  }
  if (manifest.tokenizer == TokenizerKind::none)
    return fail(
        "run.no_tokenizer", "the model's tokens are not bytes, so text cannot be encoded",
        "give token ids, --prompt-tokens 1,2,3; scripts/run_with_onnxruntime.py and, for models "
        "that label tokens, scripts/label_text.py encode text by an export's tokenizer.json");
  Prompt prompt;
  prompt.text = flags.text;
  if (!flags.file.empty()) {
    MOEC_ASSIGN(prompt.text, read_text(flags.file));
  }
  const bool empty = prompt.text.value_or("").empty();
  if (!prompt.text || (empty && !manifest.tagging))
    return fail("run.no_prompt", "there is nothing to start from",
                "give --prompt TEXT, --prompt-file FILE or --prompt-tokens IDS");
  prompt.tokens = encode_bytes(*prompt.text);
  return prompt;
}

}  // namespace moec
