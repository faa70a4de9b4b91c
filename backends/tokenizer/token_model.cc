#include "backends/tokenizer/token_model.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "ir/base/json.h"

namespace moec {

Result<std::unique_ptr<TokenModel>> read_token_model(const JsonReport& report,
                                                     const JsonValue& value) {
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value, "model"));
  // Files written before 2021 have no type; they are BPE.
  MOEC_ASSIGN(const std::string type, text_or(fields, "type", "BPE"));
  if (type == "BPE") return read_bpe(fields);
  if (type == "Unigram") return read_unigram(fields);
  if (type == "WordPiece") return read_word_piece(fields);
  if (type == "WordLevel") return read_word_level(fields);
  return refuse_component(fields, "model", type);
}

Result<Vocabulary> read_vocabulary(JsonFields& fields) {
  MOEC_ASSIGN(const JsonValue* tokens, fields.value("vocab"));
  if (!tokens->object()) return fields.bad("vocab", "must be an object of ids by token");
  Vocabulary vocabulary;
  for (const auto& [token, id] : *tokens->object()) {
    // Vocabulary::add() checks the range of the id, and that ids and tokens are distinct.
    if (!id.integer())
      return fields.bad("vocab", fmt::format("has no integer for \"{}\"", printable(token, 60)));
    MOEC_TRY(vocabulary.add(token, *id.integer()));
  }
  return vocabulary;
}

tl::unexpected<Diagnostics> fail_unknown(std::string_view characters) {
  return fail("tokenizer.unknown",
              fmt::format("the model has no token for \"{}\" and no unknown token",
                          printable(characters, 60)),
              "remove these characters");
}

std::string fallback_token(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

// The form is checked exactly, so that an ordinary token such as "<0x>" is not decoded as a byte.
std::optional<uint8_t> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
  unsigned byte = 0;
  const char* end = token.data() + 5;
  const auto [last, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || last != end) return std::nullopt;
  return static_cast<uint8_t>(byte);
}

// Bounds the memory that a single large id in an untrusted file can request, since ids are indices.
constexpr int64_t kMaxTokens = 1 << 24;

Status Vocabulary::add(std::string token, int64_t id) {
  const auto malformed = [&](std::string_view what) {
    return fail("tokenizer.malformed",
                fmt::format("the token \"{}\" {} {}", printable(token, 60), what, id),
                "fix tokenizer.json");
  };
  if (id < 0 || id > kMaxTokens) return malformed("has the invalid id");
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  auto& slot = tokens_[static_cast<size_t>(id)];
  if (slot) return malformed("has the already used id");
  if (ids_.contains(token)) return malformed("is repeated, with the id");
  // The keys of `ids_` are views of the strings. A heap allocation per string keeps them valid when
  // the vector grows or the vocabulary moves.
  slot = std::make_unique<const std::string>(std::move(token));
  ids_.emplace(*slot, id);
  return {};
}

const std::string* Vocabulary::token(int64_t id) const {
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)].get() : nullptr;
}

}  // namespace moec
