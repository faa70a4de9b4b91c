#include "backends/runtime/text/prompt.h"

#include <fmt/format.h>

namespace moec {

ModelTokenizer export_tokenizer(const std::string& folder, const Manifest& manifest) {
  const int64_t vocab = manifest.model.vocab;
  if (manifest.tokenizer == manifest::TokenizerKind::bytes) return {Tokenizer::bytes, vocab};
  return ModelTokenizer::of_folder(folder, vocab);
}

Status check_token(std::string_view argument, int64_t token, const Manifest& manifest) {
  const int64_t vocab = manifest.model.vocab;
  if (token >= 0 && token < vocab) return {};
  return fail("run.token",
              fmt::format("{} {} is outside the vocabulary of {} tokens", argument, token, vocab),
              fmt::format("use ids from 0 to {}", vocab - 1));
}

Result<Prompt> prompt_of_tokens(std::string_view argument, std::vector<int64_t> tokens,
                                const Manifest& manifest) {
  for (const int64_t token : tokens) MOEC_TRY(check_token(argument, token, manifest));
  return Prompt{std::move(tokens), std::nullopt, std::nullopt};
}

Status check_takes_text(const ModelTokenizer& tokenizer) {
  if (tokenizer.exists()) return {};
  return fail("run.no_tokenizer", "the export has no tokenizer, so text cannot be encoded",
              "pass token ids, such as --prompt-tokens 1,2,3, or export again with tokenizer.json "
              "next to the model's config.json");
}

Result<Prompt> prompt_of_text(std::optional<std::string> text, const Manifest& manifest,
                              const ModelTokenizer& tokenizer) {
  MOEC_TRY(check_takes_text(tokenizer));
  // An empty text has no labels, which is a valid result, but a generator has nothing to continue.
  const bool is_empty = text.value_or("").empty();
  const bool labels = manifest.tagging.has_value();
  if (!text || (is_empty && !labels))
    return fail("run.no_prompt", "the prompt is empty",
                "pass --prompt TEXT, --prompt-file FILE or --prompt-tokens IDS");
  Prompt prompt;
  MOEC_ASSIGN(prompt.tokens,
              // Labels refer to bytes of the text, and special tokens have none.
              tokenizer.encode(*text, labels ? SpecialTokens::leave_out : SpecialTokens::add));
  if (labels) {
    MOEC_ASSIGN(const Tokenizer* opened, tokenizer.get());
    prompt.byte_counts = opened->byte_counts(prompt.tokens, *text);
  }
  prompt.text = std::move(text);
  return prompt;
}

}  // namespace moec
