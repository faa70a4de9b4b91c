// WordLevel looks up whole words; WordPiece matches the longest prefix repeatedly.
#include <string>

#include "backends/tokenizer/token_model.h"
#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

class WordLevel : public TokenModel {
 public:
  WordLevel(Vocabulary vocabulary, const std::string& unknown)
      : TokenModel(std::move(vocabulary)), unknown_(this->vocabulary().find(unknown)) {}

  Status encode(std::string_view word, std::vector<int64_t>& tokens) override {
    auto token = vocabulary().find(word);
    if (!token) token = unknown_;
    if (!token) return fail_unknown(word);
    tokens.push_back(*token);
    return {};
  }

 private:
  std::optional<int64_t> unknown_;
};

class WordPiece : public TokenModel {
 public:
  WordPiece(Vocabulary vocabulary, const std::string& unknown, std::string prefix,
            int64_t most_characters)
      : TokenModel(std::move(vocabulary)),
        unknown_(this->vocabulary().find(unknown)),
        prefix_(std::move(prefix)),
        most_characters_(most_characters) {}

  // If any part of a word has no token, the whole word becomes one unknown token. Words above
  // `most_characters_` are not tried, because the search is quadratic in their length.
  Status encode(std::string_view word, std::vector<int64_t>& tokens) override {
    const size_t before = tokens.size();
    if (characters_of(word) <= most_characters_ && cut(word, tokens)) return {};
    if (!unknown_) return fail_unknown(word);
    tokens.resize(before);
    tokens.push_back(*unknown_);
    return {};
  }

 private:
  static int64_t characters_of(std::string_view word) {
    int64_t count = 0;
    for (size_t at = 0; at < word.size(); at += utf8_length(word[at])) ++count;
    return count;
  }

  // Splits the word into tokens; false if that fails.
  bool cut(std::string_view word, std::vector<int64_t>& tokens) const {
    for (size_t begin = 0; begin < word.size();) {
      const size_t end = end_of_longest(word, begin, tokens);
      if (end == begin) return false;
      begin = end;
    }
    return true;
  }

  // Appends the longest token at `begin` and returns its end; returns `begin` if none matches.
  // Each step removes one character from the end of `candidate`, so the prefix of continuing pieces
  // stays.
  size_t end_of_longest(std::string_view word, size_t begin, std::vector<int64_t>& tokens) const {
    std::string candidate = (begin > 0 ? prefix_ : "") + std::string(word.substr(begin));
    for (size_t end = word.size(); end > begin;) {
      if (const auto token = vocabulary().find(candidate)) {
        tokens.push_back(*token);
        return end;
      }
      do {
        --end;
        candidate.pop_back();
      } while (end > begin && (static_cast<unsigned char>(word[end]) & 0xc0U) == 0x80U);
    }
    return begin;
  }

  std::optional<int64_t> unknown_;
  std::string prefix_;
  int64_t most_characters_;
};

}  // namespace

Result<std::unique_ptr<TokenModel>> read_word_level(JsonFields& fields) {
  MOEC_ASSIGN(Vocabulary vocabulary, read_vocabulary(fields));
  MOEC_ASSIGN(const std::string unknown, text_or(fields, "unk_token", ""));
  MOEC_TRY(fields.finish());
  return std::make_unique<WordLevel>(std::move(vocabulary), unknown);
}

Result<std::unique_ptr<TokenModel>> read_word_piece(JsonFields& fields) {
  MOEC_ASSIGN(Vocabulary vocabulary, read_vocabulary(fields));
  MOEC_ASSIGN(const std::string unknown, text_or(fields, "unk_token", "[UNK]"));
  MOEC_ASSIGN(std::string prefix, text_or(fields, "continuing_subword_prefix", "##"));
  // The default of tokenizers.
  int64_t most_characters = 100;
  if (fields.has("max_input_chars_per_word"))
    MOEC_TRY(fields.whole("max_input_chars_per_word", most_characters));
  MOEC_TRY(fields.finish());
  return std::make_unique<WordPiece>(std::move(vocabulary), unknown, std::move(prefix),
                                     most_characters);
}

}  // namespace moec
