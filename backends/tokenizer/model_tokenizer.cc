#include "backends/tokenizer/model_tokenizer.h"

#include <fmt/format.h>

#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/tokenizer/byte_tokens.h"
#include "ir/base/regular_file.h"

namespace moec {

// Shared by all copies, so that a tokenizer is opened at most once. An error is stored, too: later
// calls return the same error without opening the file again.
struct ModelTokenizer::Opened {
  Open open;
  std::mutex opening;
  std::optional<Result<Tokenizer>> tokenizer;
};

ModelTokenizer::ModelTokenizer(Open open, int64_t vocab) : vocab_(vocab) {
  if (!open) return;
  opened_ = std::make_shared<Opened>();
  opened_->open = std::move(open);
}

ModelTokenizer ModelTokenizer::of_folder(const std::string& folder, int64_t vocab) {
  const std::string path = (std::filesystem::path(folder) / "tokenizer.json").string();
  if (!file_exists(path)) return {Open(), vocab};
  // Tokenizer::bytes() has the same ids if tokens are bytes, and also encodes invalid UTF-8.
  const auto open = [folder, path]() -> Result<Tokenizer> {
    MOEC_ASSIGN(const bool bytes, tokens_are_bytes(folder));
    return bytes ? Tokenizer::bytes() : Tokenizer::open(path);
  };
  return {open, vocab};
}

Result<const Tokenizer*> ModelTokenizer::get() const {
  if (!opened_) return nullptr;
  // Several threads may encode their first text at once. The result stays valid after the lock,
  // because it is never replaced.
  const std::lock_guard lock(opened_->opening);
  auto& tokenizer = opened_->tokenizer;
  if (!tokenizer) tokenizer.emplace(opened_->open());
  if (!*tokenizer) return fail(tokenizer->error());
  return &**tokenizer;
}

ModelTokenizer ModelTokenizer::or_none(Diagnostics& notes) const {
  const auto opened = get();
  if (opened) return *this;
  for (Diagnostic reason : opened.error()) {
    reason.severity = Severity::note;
    notes.push_back(std::move(reason));
  }
  return {Open(), vocab_};
}

Result<std::vector<int64_t>> ModelTokenizer::encode(std::string_view text,
                                                    SpecialTokens special) const {
  MOEC_ASSIGN(const Tokenizer* tokenizer, get());
  if (!tokenizer)
    return fail("tokenizer.missing", "the model has no tokenizer",
                "pass token ids instead of text");
  MOEC_ASSIGN(std::vector<int64_t> tokens, tokenizer->encode(text, special));
  // A tokenizer.json may have more tokens than the embedding has rows, for example after it was
  // copied from another model. Tokenizer::parse() rejects negative ids.
  for (const int64_t token : tokens)
    if (token >= vocab_)
      return fail("tokenizer.vocabulary",
                  fmt::format("token id {} is outside the model's vocabulary of {}", token, vocab_),
                  "use the model's own tokenizer.json");
  return tokens;
}

}  // namespace moec
