// Unigram: the segmentation of a word with the highest sum of scores (Viterbi).
#include <algorithm>
#include <limits>
#include <string>

#include "backends/tokenizer/token_model.h"
#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

constexpr double kUnknownPenalty = 10;  // below the minimum score (SentencePiece, kUnkPenalty)

// Sorted tokens; finds all prefixes of a text by narrowing a range byte by byte.
class PrefixSearch {
 public:
  // The entries are views of the vocabulary's strings. The base class owns the vocabulary and is
  // constructed first.
  explicit PrefixSearch(const Vocabulary& vocabulary) {
    for (const auto& [token, id] : vocabulary.ids()) sorted_.emplace_back(token, id);
    std::sort(sorted_.begin(), sorted_.end());
  }

  // Calls found(length, id) for each token that is a prefix of `text`, shortest first.
  template <class Found>
  void find(std::string_view text, Found found) const {
    // Invariant: [first, last) are the tokens that begin with the first `length` bytes of the text.
    auto first = sorted_.begin(), last = sorted_.end();
    for (size_t length = 0; length < text.size() && first != last; ++length) {
      const auto byte_of = [&](const auto& entry) {
        return static_cast<unsigned char>(entry.first[length]);
      };
      const auto byte = static_cast<unsigned char>(text[length]);
      // A token that ends here sorts first.
      while (first != last && first->first.size() == length) ++first;
      first = std::partition_point(first, last, [&](const auto& e) { return byte_of(e) < byte; });
      last = std::partition_point(first, last, [&](const auto& e) { return byte_of(e) == byte; });
      if (first != last && first->first.size() == length + 1) found(length + 1, first->second);
    }
  }

 private:
  std::vector<std::pair<std::string_view, int64_t>> sorted_;
};

class Unigram : public TokenModel {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int64_t> unknown,
          bool byte_fallback)
      : TokenModel(std::move(vocabulary)),
        search_(this->vocabulary()),
        scores_(std::move(scores)),
        unknown_(unknown),
        byte_fallback_(byte_fallback),
        unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty) {}

  Status encode(std::string_view word, std::vector<int64_t>& tokens) override {
    const std::vector<Arrival> best = best_path(word);
    std::vector<Part> parts;  // in reverse order
    for (size_t end = word.size(); end > 0; end = best[end].from) {
      const Arrival& arrival = best[end];
      // Adjacent unknown characters form one part, as tokenizers does with fuse_unk.
      const bool joins = !arrival.token && !parts.empty() && !parts.back().token;
      if (joins)
        parts.back().begin = arrival.from;
      else
        parts.push_back({arrival.from, end, arrival.token});
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      MOEC_TRY(add(word.substr(part->begin, part->end - part->begin), part->token, tokens));
    return {};
  }

 private:
  // The best path to an offset. `token` is its last token, or nullopt for an unknown character.
  struct Arrival {
    double score = 0;
    size_t from = 0;
    bool reached = false;
    std::optional<int64_t> token;
  };
  struct Part {
    size_t begin = 0, end = 0;
    std::optional<int64_t> token;
  };

  // Returns the best arrival at each offset. Every character boundary is reached, because a single
  // character always forms a step. Offsets inside a character stay unreached and are never used.
  std::vector<Arrival> best_path(std::string_view word) const {
    std::vector<Arrival> best(word.size() + 1);
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8_length(word[at]);
      bool is_known = false;
      const auto arrive = [&](size_t bytes, double score, std::optional<int64_t> token) {
        Arrival& there = best[at + bytes];
        // On equal sums the first arrival stays. Starts are visited from left to right, so the
        // longer last token wins.
        const double sum = best[at].score + score;
        if (!there.reached || sum > there.score) there = {sum, at, true, token};
      };
      // The text may contain the name of the unknown token, such as "<unk>". That match is fused
      // like an unknown character.
      search_.find(word.substr(at), [&](size_t bytes, int64_t token) {
        is_known |= bytes == length;
        const bool unknown = token == unknown_;
        arrive(bytes, scores_[static_cast<size_t>(token)],
               unknown ? std::nullopt : std::optional(token));
      });
      if (!is_known) arrive(length, unknown_score_, std::nullopt);
      at += length;
    }
    return best;
  }

  // Fused unknown characters may form a token. If they do not, tries byte fallback before the
  // unknown token.
  Status add(std::string_view part, std::optional<int64_t> token, std::vector<int64_t>& tokens) {
    if (!token) token = vocabulary().find(part);
    if (token) {
      tokens.push_back(*token);
      return {};
    }
    if (byte_fallback_ && add_bytes(part, tokens)) return {};
    if (!unknown_) return fail_unknown(part);
    tokens.push_back(*unknown_);
    return {};
  }

  // Appends nothing unless every byte has a token.
  bool add_bytes(std::string_view part, std::vector<int64_t>& tokens) const {
    std::vector<int64_t> bytes;
    for (const char c : part) {
      const auto id = vocabulary().find(fallback_token(static_cast<uint8_t>(c)));
      if (!id) return false;
      bytes.push_back(*id);
    }
    tokens.insert(tokens.end(), bytes.begin(), bytes.end());
    return true;
  }

  PrefixSearch search_;
  std::vector<double> scores_;
  std::optional<int64_t> unknown_;
  bool byte_fallback_;
  double unknown_score_;
};

struct ScoredVocabulary {
  Vocabulary vocabulary;
  std::vector<double> scores;
};

// Reads a list of [token, score]; an entry's index is its id.
Result<ScoredVocabulary> read_scores(JsonFields& fields) {
  MOEC_ASSIGN(const JsonValue* entries, fields.value("vocab"));
  if (!entries->array() || entries->array()->empty())
    return fields.bad("vocab", "must be a list of tokens and scores");
  ScoredVocabulary read;
  for (const JsonValue& entry : *entries->array()) {
    const auto* pair = entry.array();
    if (!pair || pair->size() != 2 || !(*pair)[0].string() || !(*pair)[1].number())
      return fields.bad("vocab",
                        fmt::format("has {}, expected a token and a score", to_string(entry, 60)));
    MOEC_TRY(read.vocabulary.add(*(*pair)[0].string(), std::ssize(read.scores)));
    read.scores.push_back(*(*pair)[1].number());
  }
  return read;
}

}  // namespace

Result<std::unique_ptr<TokenModel>> read_unigram(JsonFields& fields) {
  MOEC_ASSIGN(ScoredVocabulary read, read_scores(fields));
  std::optional<int64_t> unknown;
  if (is_given(fields, "unk_id")) {
    MOEC_TRY(fields.whole("unk_id", unknown.emplace()));
    if (*unknown >= std::ssize(read.scores)) return fields.bad("unk_id", "is not a token id");
  }
  MOEC_ASSIGN(const bool byte_fallback, flag(fields, "byte_fallback", false));
  MOEC_TRY(fields.finish());
  return std::make_unique<Unigram>(std::move(read.vocabulary), std::move(read.scores), unknown,
                                   byte_fallback);
}

}  // namespace moec
