#include "backends/tokenizer/decoders.h"

#include <array>
#include <utility>

#include "backends/tokenizer/byte_alphabet.h"
#include "backends/tokenizer/normalizers.h"
#include "backends/tokenizer/token_model.h"
#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

// `from` must not be empty. The search continues after the inserted text, so it ends even if `to`
// contains `from`.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

std::string join(const std::vector<std::string>& tokens) {
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

// A token with a character outside the alphabet is kept unchanged, as in tokenizers. All tokens
// become one, because the bytes of a character may be spread over several tokens.
Status from_byte_level(std::vector<std::string>& tokens) {
  std::string bytes;
  for (const std::string& token : tokens) bytes += bytes_of_characters(token).value_or(token);
  tokens = {replace_invalid_utf8(bytes)};
  return {};
}

// Appends the bytes as one token; one U+FFFD per byte if they are not valid UTF-8. tokenizers
// checks the run of bytes as a whole, too.
void add_bytes(std::string& bytes, std::vector<std::string>& tokens) {
  if (bytes.empty()) return;
  if (first_invalid_utf8(bytes))
    tokens.insert(tokens.end(), bytes.size(), "\xef\xbf\xbd");
  else
    tokens.push_back(bytes);
  bytes.clear();
}

Status from_byte_fallback(std::vector<std::string>& tokens) {
  std::vector<std::string> decoded;
  std::string bytes;
  for (std::string& token : tokens) {
    if (const auto byte = fallback_byte(token)) {
      bytes += static_cast<char>(*byte);
      continue;
    }
    add_bytes(bytes, decoded);
    decoded.push_back(std::move(token));
  }
  add_bytes(bytes, decoded);
  tokens = std::move(decoded);
  return {};
}

Status fuse(std::vector<std::string>& tokens) {
  tokens = {join(tokens)};
  return {};
}

// Removes `content` up to `start` times from the front and `stop` times from the back.
// strip_decoder() rejects an empty `content`, which would match without shortening the text.
std::string_view stripped(std::string_view text, std::string_view content, int64_t start,
                          int64_t stop) {
  for (; start > 0 && text.starts_with(content); --start) text.remove_prefix(content.size());
  for (; stop > 0 && text.ends_with(content); --stop) text.remove_suffix(content.size());
  return text;
}

Result<Decoder> strip_decoder(JsonFields& fields) {
  std::string content;
  int64_t start = 0, stop = 0;
  MOEC_TRY(fields.text("content", content));
  MOEC_TRY(fields.whole("start", start));
  MOEC_TRY(fields.whole("stop", stop));
  MOEC_TRY(fields.finish());
  if (content.empty()) return fields.bad("content", "must be a character");
  return [=](std::vector<std::string>& tokens) -> Status {
    for (std::string& token : tokens) token = std::string(stripped(token, content, start, stop));
    return {};
  };
}

Result<Decoder> replace_decoder(JsonFields& fields) {
  MOEC_ASSIGN(const Normalizer replace, read_replace_normalizer(fields));
  return [=](std::vector<std::string>& tokens) -> Status {
    for (std::string& token : tokens) MOEC_TRY(replace(token));
    return {};
  };
}

// If `drops_first` is set, the first token loses all of its replacement characters, not only a
// leading one. tokenizers does the same.
Result<Decoder> metaspace_decoder(JsonFields& fields) {
  std::string replacement;
  MOEC_TRY(fields.text("replacement", replacement));
  // "str_rep" and "split" do not affect decoding; they are read so that finish() accepts them.
  MOEC_TRY(text_or(fields, "str_rep", ""));
  MOEC_ASSIGN(const std::string scheme, text_or(fields, "prepend_scheme", "always"));
  MOEC_ASSIGN(const bool adds_space, flag(fields, "add_prefix_space", true));
  MOEC_TRY(flag(fields, "split", true));
  MOEC_TRY(fields.finish());
  if (replacement.empty()) return fields.bad("replacement", "must be a character");
  const bool drops_first = adds_space && scheme != "never";
  return [=](std::vector<std::string>& tokens) -> Status {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(std::move(tokens[i]), replacement, drops_first && i == 0 ? "" : " ");
    return {};
  };
}

// The suffix marks the end of a word, so it becomes a space in every token except the last, where
// it is removed.
Result<Decoder> bpe_decoder(JsonFields& fields) {
  MOEC_ASSIGN(const std::string suffix, text_or(fields, "suffix", "</w>"));
  MOEC_TRY(fields.finish());
  if (suffix.empty()) return fields.bad("suffix", "must not be empty");
  return [=](std::vector<std::string>& tokens) -> Status {
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = replaced(std::move(tokens[i]), suffix, i + 1 == tokens.size() ? "" : " ");
    return {};
  };
}

// The cleanup of WordPiece: removes spaces before English punctuation and contractions
// (clean_up_tokenization of transformers).
std::string without_gaps(std::string text) {
  // The order matters: each replacement sees the result of the previous ones.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kGaps = {
      {{" .", "."},
       {" ?", "?"},
       {" !", "!"},
       {" ,", ","},
       {" ' ", "'"},
       {" n't", "n't"},
       {" 'm", "'m"},
       {" do not", " don't"},
       {" 's", "'s"},
       {" 've", "'ve"},
       {" 're", "'re"}}};
  for (const auto& [from, to] : kGaps) text = replaced(std::move(text), from, to);
  return text;
}

// The cleanup runs per token, after the space before the token is added. It therefore also removes
// that space.
Result<Decoder> word_piece_decoder(JsonFields& fields) {
  MOEC_ASSIGN(const std::string prefix, text_or(fields, "prefix", "##"));
  MOEC_ASSIGN(const bool cleans, flag(fields, "cleanup", true));
  MOEC_TRY(fields.finish());
  return [=](std::vector<std::string>& tokens) -> Status {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0)
        token = token.starts_with(prefix) ? token.substr(prefix.size())
                                          : std::string(" ").append(token);
      if (cleans) token = without_gaps(std::move(token));
    }
    return {};
  };
}

Result<Decoder> sequence_decoder(JsonFields& fields) {
  MOEC_ASSIGN(const auto steps, read_components(fields, "decoders", read_decoder));
  MOEC_TRY(fields.finish());
  return [steps](std::vector<std::string>& tokens) -> Status {
    for (const Decoder& step : steps) MOEC_TRY(step(tokens));
    return {};
  };
}

// Reads the fields that only the ByteLevel pre-tokenizer uses.
Result<Decoder> byte_level_decoder(JsonFields& fields) {
  for (const char* name : {"add_prefix_space", "trim_offsets", "use_regex"})
    MOEC_TRY(flag(fields, name, true));
  MOEC_TRY(fields.finish());
  return from_byte_level;
}

Status put_spaces_between(std::vector<std::string>& tokens) {
  for (size_t i = 1; i < tokens.size(); ++i) tokens[i] = std::string(" ").append(tokens[i]);
  return {};
}

Result<Decoder> plain_decoder(JsonFields& fields, Status (*decode)(std::vector<std::string>&)) {
  MOEC_TRY(fields.finish());
  return decode;
}

}  // namespace

Result<Decoder> read_decoder(const JsonReport& report, const JsonValue& value) {
  // Without a decoder, tokenizers joins the tokens with spaces.
  if (value.is_null()) return put_spaces_between;
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value, "decoder"));
  std::string type;
  MOEC_TRY(fields.text("type", type));
  if (type == "Sequence") return sequence_decoder(fields);
  if (type == "ByteLevel") return byte_level_decoder(fields);
  if (type == "ByteFallback") return plain_decoder(fields, from_byte_fallback);
  if (type == "Fuse") return plain_decoder(fields, fuse);
  if (type == "Replace") return replace_decoder(fields);
  if (type == "Strip") return strip_decoder(fields);
  if (type == "Metaspace") return metaspace_decoder(fields);
  if (type == "WordPiece") return word_piece_decoder(fields);
  if (type == "BPEDecoder") return bpe_decoder(fields);
  return refuse_component(fields, "decoder", type);
}

}  // namespace moec
