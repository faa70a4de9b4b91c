#include "backends/tokenizer/tokenizer.h"

#include <filesystem>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "backends/tokenizer/added_tokens.h"
#include "backends/tokenizer/byte_alphabet.h"
#include "backends/tokenizer/decoders.h"
#include "backends/tokenizer/normalizers.h"
#include "backends/tokenizer/pre_tokenizers.h"
#include "backends/tokenizer/special_tokens.h"
#include "backends/tokenizer/token_model.h"
#include "backends/tokenizer/unicode.h"
#include "ir/base/regular_file.h"

namespace moec {

// The text is first searched for tokens in `in_text`. Between them, the normalized text is searched
// for tokens in `in_normalized`.
struct Tokenizer::Parts {
  std::unique_ptr<TokenModel> model;  // null: ids are byte values
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  SurroundingTokens surrounding;
  Decoder decoder;
  AddedTokenSearch in_text, in_normalized;
  // By id: the decoder's input, nullopt for a special token.
  std::unordered_map<int64_t, std::optional<std::string>> added;
  std::unordered_map<std::string, int64_t> added_ids;
  int64_t size = 0;
  std::mutex scratch;  // patterns, models and decoders have scratch buffers and caches

  Status add(AddedToken token);
  std::string bytes_at(std::string_view text, int64_t token) const;
  Status encode(std::string_view text, std::vector<int64_t>& tokens) const;
  Status encode_plain(std::string_view text, bool begins, std::vector<int64_t>& tokens) const;
  Status encode_words(std::string_view text, bool begins, std::vector<int64_t>& tokens) const;
};

namespace {

JsonReport report_on(std::string_view json, const std::string& path) {
  return {json, path, JsonCodes::all_as("tokenizer.malformed", "fix tokenizer.json")};
}

Result<AddedToken> read_added(JsonFields& fields) {
  AddedToken token;
  MOEC_TRY(fields.whole("id", token.id));
  MOEC_TRY(fields.text("content", token.content));
  MOEC_ASSIGN(token.single_word, flag(fields, "single_word", false));
  MOEC_ASSIGN(token.lstrip, flag(fields, "lstrip", false));
  MOEC_ASSIGN(token.rstrip, flag(fields, "rstrip", false));
  MOEC_ASSIGN(token.special, flag(fields, "special", false));
  // The default of tokenizers: special tokens match the text as written.
  MOEC_ASSIGN(token.normalized, flag(fields, "normalized", !token.special));
  MOEC_TRY(fields.finish());
  return token;
}

}  // namespace

// An added token in the model's vocabulary keeps its id there. tokenizers numbers other added
// tokens consecutively and ignores the file's id, so a file with a different id is rejected.
Status Tokenizer::Parts::add(AddedToken token) {
  // tokenizers ignores empty tokens; a search for one would match everywhere.
  if (token.content.empty()) return {};
  const auto known = model->vocabulary().find(token.content);
  const auto again = added_ids.find(token.content);
  const int64_t id = known ? *known : again != added_ids.end() ? again->second : size;
  if (id != token.id)
    return fail("tokenizer.malformed",
                fmt::format("the added token \"{}\" has id {}, but tokenizers would assign {}",
                            printable(token.content, 60), token.id, id),
                "fix tokenizer.json");
  // A token of the normalized text is compared with normalized texts, so it is normalized itself.
  std::string content = token.content;
  if (token.normalized && normalizer) MOEC_TRY(normalizer(content));
  size = std::max(size, id + 1);
  added_ids.insert_or_assign(token.content, id);
  added.insert_or_assign(id, token.special ? std::nullopt : std::optional(content));
  if (!content.empty()) (token.normalized ? in_normalized : in_text).add(content, std::move(token));
  return {};
}

// `part` is a view of the text, so its address shows if it starts the input.
Status Tokenizer::Parts::encode(std::string_view text, std::vector<int64_t>& tokens) const {
  const char* begin = text.data();
  return in_text.split(text, [&](std::string_view part, const AddedToken* token) -> Status {
    if (!token) return encode_plain(part, part.data() == begin, tokens);
    tokens.push_back(token->id);
    return {};
  });
}

// Encodes a text between non-normalized added tokens.
Status Tokenizer::Parts::encode_plain(std::string_view text, bool begins,
                                      std::vector<int64_t>& tokens) const {
  std::string normalized(text);
  if (normalizer) MOEC_TRY(normalizer(normalized));
  if (in_normalized.empty()) return encode_words(normalized, begins, tokens);
  const char* first = normalized.data();
  return in_normalized.split(normalized,
                             [&](std::string_view part, const AddedToken* token) -> Status {
                               if (!token)
                                 return encode_words(part, begins && part.data() == first, tokens);
                               tokens.push_back(token->id);
                               return {};
                             });
}

Status Tokenizer::Parts::encode_words(std::string_view text, bool begins,
                                      std::vector<int64_t>& tokens) const {
  Pieces pieces(std::string(text), begins);
  if (pre_tokenizer) MOEC_TRY(pre_tokenizer(pieces));
  for (size_t i = 0; i < pieces.size(); ++i) MOEC_TRY(model->encode(pieces[i], tokens));
  return {};
}

// The prefix of `text` that the token covers: its bytes in the byte alphabet, or its string. Empty
// if neither is a prefix.
std::string Tokenizer::Parts::bytes_at(std::string_view text, int64_t token) const {
  if (!model)
    return text.starts_with(static_cast<char>(token)) ? std::string(text.substr(0, 1)) : "";
  const std::string* word = model->vocabulary().token(token);
  if (!word) return {};
  const auto bytes = added.contains(token) ? std::nullopt : bytes_of_characters(*word);
  if (bytes && text.starts_with(*bytes)) return *bytes;
  return text.starts_with(*word) ? *word : std::string();
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::parse(std::string_view json, const std::string& path) {
  const JsonReport report = report_on(json, path);
  auto parts = std::make_unique<Parts>();
  // Members may come in any order. Added tokens need the model and the normalizer, so they are
  // added last.
  std::vector<AddedToken> added;
  JsonValue absent;
  MOEC_ASSIGN(parts->decoder, read_decoder(report, absent));
  const auto read = [&](const std::string& key, const JsonValue& value) -> Status {
    if (key == "normalizer") {
      MOEC_ASSIGN(parts->normalizer, read_normalizer(report, value));
    } else if (key == "pre_tokenizer") {
      MOEC_ASSIGN(parts->pre_tokenizer, read_pre_tokenizer(report, value));
    } else if (key == "post_processor") {
      MOEC_ASSIGN(parts->surrounding, read_post_processor(report, value));
    } else if (key == "decoder") {
      MOEC_ASSIGN(parts->decoder, read_decoder(report, value));
    } else if (key == "model") {
      MOEC_ASSIGN(parts->model, read_token_model(report, value));
    } else if (key == "added_tokens" && value.array()) {
      for (const JsonValue& item : *value.array()) {
        MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, item, "added_tokens"));
        MOEC_ASSIGN(AddedToken token, read_added(fields));
        added.push_back(std::move(token));
      }
    }
    return {};
  };
  MOEC_TRY(report.parse_members(kTokenizerLimits, read));
  if (!parts->model)
    return fail("tokenizer.malformed", "the file has no \"model\"", "fix tokenizer.json",
                {.file = path});
  // tokenizers numbers new added tokens from the number of tokens, not from the largest id plus
  // one. The two differ if ids have gaps.
  parts->size = std::ssize(parts->model->vocabulary().ids());
  for (AddedToken& token : added) MOEC_TRY(parts->add(std::move(token)));
  parts->size = std::max(parts->size, parts->model->vocabulary().size());
  return Tokenizer(std::move(parts));
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  if (!file_exists(path))
    return fail(
        "tokenizer.missing", "the file is missing",
        "copy the model's tokenizer.json to this path, or pass token ids with --prompt-tokens",
        {.file = path});
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  if (file.size() > kMaxTokenizerBytes)
    return fail("tokenizer.too_long",
                fmt::format("the file is larger than {} bytes", kMaxTokenizerBytes),
                "pass token ids with --prompt-tokens", {.file = path});
  MOEC_ASSIGN(const std::string json, file.read(0, file.size()));
  return parse(json, path);
}

Tokenizer Tokenizer::bytes() {
  auto parts = std::make_unique<Parts>();
  parts->size = 256;
  return Tokenizer(std::move(parts));
}

Result<std::vector<int64_t>> Tokenizer::encode(std::string_view text, SpecialTokens special) const {
  std::vector<int64_t> tokens;
  // Without a model, every byte is a token, so the text need not be valid UTF-8.
  if (!parts_->model) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  // UTF-8 is checked once here, because all components require valid UTF-8.
  if (const auto at = first_invalid_utf8(text))
    return fail("tokenizer.utf8", fmt::format("invalid UTF-8 at byte {} of the text", *at),
                "pass text in UTF-8");
  const std::lock_guard lock(parts_->scratch);
  const bool adds = special == SpecialTokens::add;
  if (adds) tokens = parts_->surrounding.before;
  MOEC_TRY(parts_->encode(text, tokens));
  const std::vector<int64_t>& behind = parts_->surrounding.behind;
  if (adds) tokens.insert(tokens.end(), behind.begin(), behind.end());
  return tokens;
}

Result<std::string> Tokenizer::decode(std::span<const int64_t> tokens) const {
  std::string text;
  if (!parts_->model) {
    for (const int64_t token : tokens)
      if (token >= 0 && token < 256) text += static_cast<char>(token);
    return replace_invalid_utf8(text);
  }
  std::vector<std::string> texts;
  for (const int64_t token : tokens) {
    const auto added = parts_->added.find(token);
    if (added != parts_->added.end()) {
      if (added->second) texts.push_back(*added->second);
    } else if (const std::string* plain = parts_->model->vocabulary().token(token)) {
      texts.push_back(*plain);
    }
  }
  const std::lock_guard lock(parts_->scratch);
  MOEC_TRY(parts_->decoder(texts));
  for (const std::string& part : texts) text += part;
  return text;
}

// bytes_at() returns an empty string if the remaining text does not begin with the token, for
// example with a special token.
std::optional<std::vector<int64_t>> Tokenizer::byte_counts(std::span<const int64_t> tokens,
                                                           std::string_view text) const {
  std::vector<int64_t> counts;
  for (const int64_t token : tokens) {
    const std::string bytes = parts_->bytes_at(text, token);
    if (bytes.empty()) return std::nullopt;
    text.remove_prefix(bytes.size());
    counts.push_back(std::ssize(bytes));
  }
  if (!text.empty()) return std::nullopt;
  return counts;
}

std::optional<int64_t> Tokenizer::find(std::string_view token) const {
  const auto added = parts_->added_ids.find(std::string(token));
  if (added != parts_->added_ids.end()) return added->second;
  if (!parts_->model) return std::nullopt;
  return parts_->model->vocabulary().find(token);
}

std::optional<std::string> Tokenizer::name(int64_t token) const {
  for (const auto& [name, id] : parts_->added_ids)
    if (id == token) return name;
  const std::string* plain = parts_->model ? parts_->model->vocabulary().token(token) : nullptr;
  return plain ? std::optional(*plain) : std::nullopt;
}

int64_t Tokenizer::size() const { return parts_->size; }

static constexpr std::string_view kReplacement = "\xef\xbf\xbd";

Result<std::string> TextDecoder::add(int64_t token) {
  if (!tokenizer_) return fmt::format("{} ", token);
  tokens_.push_back(token);
  const std::span<const int64_t> all(tokens_);
  MOEC_ASSIGN(const std::string known, tokenizer_->decode(all.first(given_)));
  MOEC_ASSIGN(const std::string text, tokenizer_->decode(all));
  // A trailing U+FFFD may be the start of a character whose other bytes follow. The text is held
  // back until the character is complete.
  if (text.size() <= known.size() || text.ends_with(kReplacement)) return std::string();
  std::string more = text.substr(known.size());
  // The next token's text may depend on this step's tokens (a stripped space), not on earlier ones.
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(given_));
  given_ = tokens_.size();
  return more;
}

// Unlike add(), returns the U+FFFD of a character that stays incomplete.
Result<std::string> TextDecoder::finish() {
  if (!tokenizer_) return std::string();
  const std::span<const int64_t> all(tokens_);
  MOEC_ASSIGN(const std::string known, tokenizer_->decode(all.first(given_)));
  MOEC_ASSIGN(const std::string text, tokenizer_->decode(all));
  given_ = tokens_.size();
  return text.size() > known.size() ? text.substr(known.size()) : std::string();
}

}  // namespace moec
