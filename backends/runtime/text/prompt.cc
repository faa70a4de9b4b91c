#include "backends/runtime/text/prompt.h"

#include <fmt/format.h>

#include "backends/runtime/text/tokenizer.h"

namespace moec {

Status check_token(std::string_view argument, int64_t token, const Manifest& manifest) {
  const int64_t vocab = manifest.model.vocab;
  if (token >= 0 && token < vocab) return {};
  return fail("run.token",
              fmt::format("{} {}: the vocabulary has {} tokens", argument, token, vocab),
              fmt::format("token ids are 0 to {}", vocab - 1));
}

Result<Prompt> prompt_of_tokens(std::string_view argument, std::vector<int64_t> tokens,
                                const Manifest& manifest) {
  for (const int64_t token : tokens) MOEC_TRY(check_token(argument, token, manifest));
  return Prompt{std::move(tokens), std::nullopt};
}

Status check_takes_text(const Manifest& manifest) {
  if (manifest.tokenizer != TokenizerKind::none) return {};
  return fail("run.no_tokenizer", "the model's tokens are not bytes, so text cannot be encoded",
              "give token ids, --prompt-tokens 1,2,3; scripts/run_with_onnxruntime.py and, for "
              "models that label tokens, scripts/label_text.py encode text with the export's "
              "tokenizer.json");
}

Result<Prompt> prompt_of_text(std::optional<std::string> text, const Manifest& manifest) {
  MOEC_TRY(check_takes_text(manifest));
  const bool is_empty = text.value_or("").empty();
  if (!text || (is_empty && !manifest.tagging))
    return fail("run.no_prompt", "the prompt is empty",
                "give --prompt TEXT, --prompt-file FILE or --prompt-tokens IDS");
  Prompt prompt{encode_bytes(*text), std::nullopt};
  prompt.text = std::move(text);
  return prompt;
}

}  // namespace moec
