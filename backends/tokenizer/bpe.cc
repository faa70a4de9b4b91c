// Byte-pair encoding: merges adjacent symbols of a word, lowest rank first, until no pair has a
// merge.
#include <algorithm>
#include <array>
#include <limits>
#include <queue>
#include <set>
#include <string>
#include <unordered_map>

#include "backends/tokenizer/token_model.h"
#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

// The two limits bound the texts in the cache to 8 MiB. A full cache is cleared, which needs no
// bookkeeping per hit.
constexpr size_t kMaxCached = 1 << 17;  // words
constexpr size_t kLongestCached = 64;   // bytes

struct Merge {
  int64_t rank = 0, token = 0;
};

// A hash table of merges, keyed by a pair of ids. Uses open addressing, because every character of
// an uncached word costs a few lookups.
class MergeTable {
 public:
  // At most half of the slots are in use, so that a probe reaches an empty slot after few steps.
  explicit MergeTable(size_t merges) {
    int bits = 4;
    while ((size_t{1} << static_cast<unsigned>(bits)) < 2 * merges) ++bits;
    shift_ = static_cast<unsigned>(64 - bits);
    keys_.assign(size_t{1} << static_cast<unsigned>(bits), kNone);
    merges_.resize(keys_.size());
  }

  // The last rank of a duplicate pair wins, as in tokenizers.
  void set(int64_t left, int64_t right, Merge merge) {
    const size_t slot = slot_of(key(left, right));
    keys_[slot] = key(left, right);
    merges_[slot] = merge;
  }
  const Merge* find(int64_t left, int64_t right) const {
    const size_t slot = slot_of(key(left, right));
    return keys_[slot] == kNone ? nullptr : &merges_[slot];
  }

 private:
  // No key has this value, because Vocabulary limits ids to [0, 2^24]. Two such ids fit into 64
  // bits.
  static constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();

  static uint64_t key(int64_t left, int64_t right) {
    return (static_cast<uint64_t>(left) << 32U) | static_cast<uint64_t>(right);
  }
  // Fibonacci hashing: the high bits of the product depend on all bits of the key.
  size_t slot_of(uint64_t key) const {
    size_t slot = (key * 0x9e3779b97f4a7c15U) >> shift_;
    while (keys_[slot] != kNone && keys_[slot] != key) slot = (slot + 1) & (keys_.size() - 1);
    return slot;
  }

  unsigned shift_ = 0;
  std::vector<uint64_t> keys_;
  std::vector<Merge> merges_;
};

// The last and the first character of a text.
std::string_view last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U) --at;
  return text.substr(at);
}
std::string_view first_character(std::string_view text) {
  return text.substr(0, utf8_length(text.front()));
}

struct Merges {
  MergeTable pairs;
  // Pairs of character tokens that some merge makes adjacent: the last character of the merge's
  // left half and the first character of its right half. A word is split at all other pairs, so
  // that its parts can be cached.
  MergeTable meetings;
};

struct BpeOptions {
  std::string unknown;         // for characters without a token; empty: drop them
  std::string prefix, suffix;  // of continuing and of word-final characters
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

// The symbols of a word during merging: a doubly linked list in a vector.
class Word {
 public:
  void clear() { symbols_.clear(); }
  void add(int64_t token) {
    const int last = static_cast<int>(symbols_.size()) - 1;
    if (last >= 0) symbols_.back().next = last + 1;
    symbols_.push_back({token, last, -1});
  }

  // Applies the merges of the word. The queue may contain pairs whose symbols a later merge has
  // changed. Each candidate therefore records its two tokens, and a candidate that no longer
  // matches is dropped.
  void join(const MergeTable& merges) {
    for (size_t i = 0; i + 1 < symbols_.size(); ++i) look_at(static_cast<int>(i), merges);
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = at(best.place);
      if (left.token != best.left || left.next < 0 || at(left.next).token != best.right) continue;
      Symbol& right = at(left.next);
      left.token = best.token;
      left.next = right.next;
      right.token = kGone;
      if (left.next >= 0) at(left.next).previous = best.place;
      if (left.previous >= 0) look_at(left.previous, merges);
      look_at(best.place, merges);
    }
  }

  void append_to(std::vector<int64_t>& tokens) const {
    for (const Symbol& symbol : symbols_)
      if (symbol.token != kGone) tokens.push_back(symbol.token);
  }

 private:
  // The token of a symbol that was merged into its left neighbour. It differs from every id, so
  // that stale candidates do not match.
  static constexpr int64_t kGone = -1;

  struct Symbol {
    int64_t token = 0;
    int previous = -1, next = -1;
  };
  struct Candidate {
    int64_t rank = 0;
    int place = 0;
    int64_t left = 0, right = 0, token = 0;
    // std::priority_queue pops the maximum: the lowest rank, then the leftmost place.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : place > other.place;
    }
  };

  Symbol& at(int place) { return symbols_[static_cast<size_t>(place)]; }
  // Queues the pair of the symbol at `place` and its successor if it has a merge.
  void look_at(int place, const MergeTable& merges) {
    const Symbol& left = at(place);
    if (left.next < 0) return;
    const int64_t right = at(left.next).token;
    if (const Merge* merge = merges.find(left.token, right))
      queue_.push({merge->rank, place, left.token, right, merge->token});
  }

  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate> queue_;
};

struct HashText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

class Bpe : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, Merges merges, BpeOptions options)
      : TokenModel(std::move(vocabulary)),
        merges_(std::move(merges)),
        options_(std::move(options)),
        unknown_(this->vocabulary().find(options_.unknown)) {
    for (unsigned byte = 0; byte < 256; ++byte)
      fallback_[byte] = this->vocabulary().find(fallback_token(static_cast<uint8_t>(byte)));
    for (unsigned code = 0; code < 128; ++code)
      ascii_[code] = this->vocabulary().find(std::string(1, static_cast<char>(code)));
  }

  // Looks up the whole word first, then splits it at pairs of characters that no merge can join.
  // Parts of long words recur in other words, so the parts are cached as well.
  Status encode(std::string_view word, std::vector<int64_t>& tokens) override {
    if (options_.ignore_merges)
      if (const auto id = vocabulary().find(word)) {
        tokens.push_back(*id);
        return {};
      }
    if (append_cached(word, tokens)) return {};
    const size_t before = tokens.size();
    part_.clear();
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8_length(word[at]);
      const Character next{at, length, find_character(word, at, length)};
      if (!part_.empty() && !can_meet(part_.back().token, next.token)) {
        MOEC_TRY(encode_part(word, tokens));
        part_.clear();
      }
      part_.push_back(next);
      at += length;
    }
    if (!part_.empty()) MOEC_TRY(encode_part(word, tokens));
    keep(word, tokens, before);
    return {};
  }

 private:
  struct Character {
    size_t offset = 0, length = 0;
    std::optional<int64_t> token;
  };

  // A fallback or unknown token may have merges with any neighbour. With a prefix or suffix, the
  // token of a character depends on its place in the word. A part then has no fixed tokens, so such
  // words are never split.
  bool can_meet(std::optional<int64_t> left, std::optional<int64_t> right) const {
    return !left || !right || has_affixes() || merges_.meetings.find(*left, *right);
  }
  bool has_affixes() const { return !options_.prefix.empty() || !options_.suffix.empty(); }

  bool append_cached(std::string_view text, std::vector<int64_t>& tokens) const {
    if (text.size() > kLongestCached) return false;
    const auto known = cache_.find(text);
    if (known == cache_.end()) return false;
    tokens.insert(tokens.end(), known->second.begin(), known->second.end());
    return true;
  }

  // Caches tokens[before…] as the tokens of the text.
  void keep(std::string_view text, const std::vector<int64_t>& tokens, size_t before) {
    if (text.size() > kLongestCached) return;
    if (cache_.size() >= kMaxCached) cache_.clear();
    cache_.emplace(text, std::vector<int64_t>(tokens.begin() + static_cast<std::ptrdiff_t>(before),
                                              tokens.end()));
  }

  // Encodes the characters in part_, a part of the word.
  Status encode_part(std::string_view word, std::vector<int64_t>& tokens) {
    const size_t begin = part_.front().offset;
    const size_t end = part_.back().offset + part_.back().length;
    const std::string_view part = word.substr(begin, end - begin);
    // encode() itself caches a part that is the whole word.
    const bool is_whole = part.size() == word.size();
    if (!is_whole && append_cached(part, tokens)) return {};
    const size_t before = tokens.size();
    MOEC_TRY(join(word));
    word_.append_to(tokens);
    if (!is_whole) keep(part, tokens, before);
    return {};
  }

  // Converts the characters of part_ to symbols, then merges them. A character without a token
  // becomes, in this order of preference, byte-fallback tokens, the unknown token, an error, or
  // nothing. It is dropped only if the model names no unknown token.
  Status join(std::string_view word) {
    word_.clear();
    std::optional<int64_t> unknown;  // pending: fuse_unk may extend it
    for (const auto& [offset, length, id] : part_) {
      const std::string_view character = word.substr(offset, length);
      if (!id && options_.byte_fallback && add_bytes(character)) continue;
      if (!id && !unknown_ && !options_.unknown.empty()) return fail_unknown(character);
      if (unknown && (id || !options_.fuse_unknown)) word_.add(*unknown);
      if (id) word_.add(*id);
      unknown = id ? std::nullopt : unknown_;
    }
    if (unknown) word_.add(*unknown);
    word_.join(merges_.pairs);
    return {};
  }

  // Remembers the last character: in SentencePiece texts, most multi-byte characters are the space
  // symbol.
  std::optional<int64_t> find_recent(std::string_view character) {
    if (character != recent_) {
      recent_token_ = vocabulary().find(character);
      recent_ = character;
    }
    return recent_token_;
  }

  // Returns the token of the character at `at` with the prefix and suffix that its place in the
  // word requires.
  std::optional<int64_t> find_character(std::string_view part, size_t at, size_t length) {
    const bool continues = at > 0 && !options_.prefix.empty();
    const bool ends = at + length == part.size() && !options_.suffix.empty();
    if (length == 1 && !has_affixes()) return ascii_[static_cast<unsigned char>(part[at])];
    if (!continues && !ends) return find_recent(part.substr(at, length));
    return vocabulary().find(fmt::format("{}{}{}", continues ? options_.prefix : "",
                                         part.substr(at, length), ends ? options_.suffix : ""));
  }

  // Adds byte-fallback tokens; false if a byte has none. Checks all bytes first, so that a failure
  // leaves the word unchanged.
  bool add_bytes(std::string_view character) {
    for (const char c : character)
      if (!fallback_[static_cast<uint8_t>(c)]) return false;
    for (const char c : character) word_.add(*fallback_[static_cast<uint8_t>(c)]);
    return true;
  }

  Merges merges_;
  BpeOptions options_;
  std::optional<int64_t> unknown_;
  std::array<std::optional<int64_t>, 256> fallback_;  // tokens of bytes
  std::array<std::optional<int64_t>, 128> ascii_;     // tokens of characters
  std::unordered_map<std::string, std::vector<int64_t>, HashText, std::equal_to<>> cache_;
  std::string recent_;
  std::optional<int64_t> recent_token_;
  std::vector<Character> part_;  // characters that can be merged with one another
  Word word_;
};

// The halves of a merge: ["a", "b"], or "a b" in files written before 2024.
std::optional<std::pair<std::string_view, std::string_view>> halves_of(const JsonValue& merge) {
  if (const auto* pair = merge.array()) {
    if (pair->size() != 2 || !(*pair)[0].string() || !(*pair)[1].string()) return std::nullopt;
    return std::pair<std::string_view, std::string_view>(*(*pair)[0].string(),
                                                         *(*pair)[1].string());
  }
  if (!merge.string()) return std::nullopt;
  const std::string_view text = *merge.string();
  const size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
    return std::nullopt;
  return std::pair(text.substr(0, space), text.substr(space + 1));
}

Result<Merges> read_merges(JsonFields& fields, const Vocabulary& vocabulary,
                           const BpeOptions& options) {
  MOEC_ASSIGN(const JsonValue* items, fields.value("merges"));
  if (!items->array()) return fields.bad("merges", "must be a list");
  const std::string& prefix = options.prefix;
  const size_t count = items->array()->size();
  Merges merges{MergeTable(count), MergeTable(0)};
  std::set<std::pair<int64_t, int64_t>> meetings;
  int64_t rank = 0;
  for (const JsonValue& item : *items->array()) {
    const auto halves = halves_of(item);
    if (!halves)
      return fields.bad("merges", fmt::format("has {}, expected a pair", to_string(item, 60)));
    const auto& [left, right] = *halves;
    if (left.empty() || right.empty()) return fields.bad("merges", "has an empty half");
    // The right half of a merge has the prefix of a continuing piece, but the joined token must not
    // contain it in the middle.
    const auto joined =
        fmt::format("{}{}", left, right.starts_with(prefix) ? right.substr(prefix.size()) : right);
    const auto a = vocabulary.find(left), b = vocabulary.find(right), c = vocabulary.find(joined);
    if (!a || !b || !c)
      return fields.bad("merges",
                        fmt::format("has {}, which the vocabulary lacks", to_string(item, 60)));
    merges.pairs.set(*a, *b, {rank++, *c});
    // A character without a token needs no entry: can_meet() assumes that it can be merged.
    const auto ending = vocabulary.find(last_character(left));
    const auto beginning = vocabulary.find(first_character(right));
    if (ending && beginning) meetings.emplace(*ending, *beginning);
  }
  merges.meetings = MergeTable(meetings.size());  // small, because it is queried for each character
  for (const auto& [ending, beginning] : meetings) merges.meetings.set(ending, beginning, {});
  return merges;
}

}  // namespace

Result<std::unique_ptr<TokenModel>> read_bpe(JsonFields& fields) {
  MOEC_ASSIGN(Vocabulary vocabulary, read_vocabulary(fields));
  BpeOptions options;
  MOEC_ASSIGN(options.prefix, text_or(fields, "continuing_subword_prefix", ""));
  MOEC_ASSIGN(options.suffix, text_or(fields, "end_of_word_suffix", ""));
  MOEC_ASSIGN(options.fuse_unknown, flag(fields, "fuse_unk", false));
  MOEC_ASSIGN(options.byte_fallback, flag(fields, "byte_fallback", false));
  MOEC_ASSIGN(options.ignore_merges, flag(fields, "ignore_merges", false));
  MOEC_ASSIGN(options.unknown, text_or(fields, "unk_token", ""));
  // Dropout skips merges at random, which no deterministic encoder can reproduce.
  if (is_given(fields, "dropout")) {
    double dropout = 0;
    MOEC_TRY(fields.number("dropout", dropout));
    if (dropout != 0) return refuse_component(fields, "model", "BPE with dropout");
  }
  MOEC_ASSIGN(Merges merges, read_merges(fields, vocabulary, options));
  MOEC_TRY(fields.finish());
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options));
}

}  // namespace moec
