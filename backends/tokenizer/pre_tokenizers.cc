#include "backends/tokenizer/pre_tokenizers.h"

#include <string>
#include <utility>
#include <vector>

#include "backends/tokenizer/byte_alphabet.h"
#include "backends/tokenizer/normalizers.h"
#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

// The built-in pattern of ByteLevel (GPT-2).
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// \w+|[^\w\s]+ with the \w of Rust's regex, which tokenizers uses here: it includes joiners.
constexpr std::string_view kWordsAndSigns = R"([\w\p{Join_Control}]+|[^\w\p{Join_Control}\s]+)";

// Includes the ASCII symbols $ + < = > ^ ` | ~, which Unicode does not classify as punctuation but
// BERT does.
bool is_ascii_punctuation(char32_t code) {
  return (code >= '!' && code <= '/') || (code >= ':' && code <= '@') ||
         (code >= '[' && code <= '`') || (code >= '{' && code <= '~');
}

bool is_any_punctuation(char32_t code) {
  return is_ascii_punctuation(code) || is_punctuation(code);
}

FindParts finder(Pattern pattern) {
  return [pattern = std::move(pattern)](std::string_view text, std::vector<TextRange>& parts) {
    return pattern.find(text, parts);
  };
}

PreTokenizer splitter(Pattern pattern, SplitBehavior behavior, bool invert) {
  return [find = finder(std::move(pattern)), behavior, invert](Pieces& pieces) {
    return pieces.split(find, behavior, invert);
  };
}

// A pre-tokenizer that splits at characters.
Result<PreTokenizer> cutter(JsonFields& fields, bool (*matches)(char32_t), SplitBehavior behavior) {
  MOEC_TRY(fields.finish());
  return [=](Pieces& pieces) { return pieces.split_at(matches, behavior); };
}

// Maps each byte to its character. With `adds_space`, a space is prepended to each piece that does
// not begin with one.
void to_byte_alphabet(Pieces& pieces, bool adds_space) {
  pieces.rewrite([&](size_t index, std::string& text) {
    if (adds_space && !pieces[index].starts_with(' ')) text += character_of_byte(' ');
    for (const char c : pieces[index]) text += character_of_byte(static_cast<uint8_t>(c));
  });
}

Result<PreTokenizer> byte_level_pre_tokenizer(JsonFields& fields) {
  MOEC_ASSIGN(const bool adds_space, flag(fields, "add_prefix_space", true));
  MOEC_ASSIGN(const bool uses_pattern, flag(fields, "use_regex", true));
  MOEC_TRY(flag(fields, "trim_offsets", true));  // affects offsets only
  MOEC_TRY(fields.finish());
  if (!uses_pattern)
    return [=](Pieces& pieces) -> Status {
      to_byte_alphabet(pieces, adds_space);
      return {};
    };
  MOEC_ASSIGN(const Pattern pattern, Pattern::regex(kGpt2Pattern));
  return [=, find = finder(pattern)](Pieces& pieces) -> Status {
    if (adds_space)
      pieces.rewrite([&](size_t index, std::string& text) {
        if (!pieces[index].starts_with(' ')) text += ' ';
        text += pieces[index];
      });
    MOEC_TRY(pieces.split(find, SplitBehavior::Isolated));
    to_byte_alphabet(pieces, false);
    return {};
  };
}

// Unlike most components, Split has no defaults: tokenizers requires all three fields.
Result<PreTokenizer> split_pre_tokenizer(JsonFields& fields) {
  MOEC_ASSIGN(Pattern pattern, read_pattern(fields, "pattern"));
  SplitBehavior behavior{};
  bool invert = false;
  MOEC_TRY(fields.choice("behavior", behavior));
  MOEC_TRY(fields.boolean("invert", invert));
  MOEC_TRY(fields.finish());
  return splitter(std::move(pattern), behavior, invert);
}

enum class PrependScheme : uint8_t { never, first, always };
constexpr auto enum_names(PrependScheme) {
  return name_table<PrependScheme>({"never", "first", "always"});
}

// Reads `prepend_scheme`, or `add_prefix_space` of older files.
Result<PrependScheme> read_scheme(JsonFields& fields) {
  auto scheme = PrependScheme::always;
  if (fields.has("prepend_scheme")) MOEC_TRY(fields.choice("prepend_scheme", scheme));
  MOEC_ASSIGN(const bool adds_space, flag(fields, "add_prefix_space", true));
  if (adds_space) return scheme;
  if (fields.has("prepend_scheme") && scheme != PrependScheme::never)
    return fields.bad("add_prefix_space", "contradicts \"prepend_scheme\"");
  return PrependScheme::never;
}

struct Metaspace {
  std::string replacement;  // one character, replaces spaces
  PrependScheme scheme = PrependScheme::always;

  void write(const Pieces& pieces, size_t index, std::string& text) const {
    const std::string_view piece = pieces[index];
    // `first` applies only to the piece that starts the input. A text after an added token gets no
    // prefix.
    const bool asks = scheme == PrependScheme::always ||
                      (scheme == PrependScheme::first && pieces.begins_text(index));
    if (asks && !piece.starts_with(' ') && !piece.starts_with(replacement)) text += replacement;
    // Bytes can be compared, because no byte of a multi-byte character is a space.
    for (const char c : piece)
      if (c == ' ')
        text += replacement;
      else
        text += c;
  }
};

Result<PreTokenizer> metaspace_pre_tokenizer(JsonFields& fields) {
  Metaspace space;
  MOEC_TRY(fields.text("replacement", space.replacement));
  MOEC_TRY(text_or(fields, "str_rep", ""));  // a redundant field of older files
  MOEC_ASSIGN(space.scheme, read_scheme(fields));
  MOEC_ASSIGN(const bool splits, flag(fields, "split", true));
  MOEC_TRY(fields.finish());
  MOEC_ASSIGN(const Pattern pattern, Pattern::literal(space.replacement));
  return [=, find = finder(pattern)](Pieces& pieces) -> Status {
    pieces.rewrite([&](size_t index, std::string& text) { space.write(pieces, index, text); });
    // The replacement begins a word, so each match joins the text after it.
    if (splits) MOEC_TRY(pieces.split(find, SplitBehavior::MergedWithNext));
    return {};
  };
}

Result<PreTokenizer> delimiter_pre_tokenizer(JsonFields& fields) {
  std::string delimiter;
  MOEC_TRY(fields.text("delimiter", delimiter));
  MOEC_TRY(fields.finish());
  MOEC_ASSIGN(Pattern pattern, Pattern::literal(delimiter));
  return splitter(std::move(pattern), SplitBehavior::Removed, false);
}

Result<PreTokenizer> digits_pre_tokenizer(JsonFields& fields) {
  MOEC_ASSIGN(const bool single, flag(fields, "individual_digits", false));
  return cutter(fields, is_numeric, single ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
}

Result<PreTokenizer> punctuation_pre_tokenizer(JsonFields& fields) {
  auto behavior = SplitBehavior::Isolated;
  if (fields.has("behavior")) MOEC_TRY(fields.choice("behavior", behavior));
  return cutter(fields, is_any_punctuation, behavior);
}

// The pattern matches the words, so `invert` makes the white space between them the ranges to
// remove.
Result<PreTokenizer> whitespace_pre_tokenizer(JsonFields& fields) {
  MOEC_TRY(fields.finish());
  MOEC_ASSIGN(Pattern pattern, Pattern::regex(kWordsAndSigns));
  return splitter(std::move(pattern), SplitBehavior::Removed, true);
}

Result<PreTokenizer> bert_pre_tokenizer(JsonFields& fields) {
  MOEC_TRY(fields.finish());
  return [](Pieces& pieces) -> Status {
    MOEC_TRY(pieces.split_at(is_white_space, SplitBehavior::Removed));
    return pieces.split_at(is_any_punctuation, SplitBehavior::Isolated);
  };
}

Result<PreTokenizer> sequence_pre_tokenizer(JsonFields& fields) {
  MOEC_ASSIGN(const auto steps, read_components(fields, "pretokenizers", read_pre_tokenizer));
  MOEC_TRY(fields.finish());
  return [steps](Pieces& pieces) -> Status {
    for (const PreTokenizer& step : steps) MOEC_TRY(step(pieces));
    return {};
  };
}

}  // namespace

Result<PreTokenizer> read_pre_tokenizer(const JsonReport& report, const JsonValue& value) {
  if (value.is_null()) return PreTokenizer();
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value, "pre_tokenizer"));
  std::string type;
  MOEC_TRY(fields.text("type", type));
  if (type == "Sequence") return sequence_pre_tokenizer(fields);
  if (type == "ByteLevel") return byte_level_pre_tokenizer(fields);
  if (type == "Split") return split_pre_tokenizer(fields);
  if (type == "Metaspace") return metaspace_pre_tokenizer(fields);
  if (type == "Digits") return digits_pre_tokenizer(fields);
  if (type == "Punctuation") return punctuation_pre_tokenizer(fields);
  if (type == "Whitespace") return whitespace_pre_tokenizer(fields);
  if (type == "WhitespaceSplit") return cutter(fields, is_white_space, SplitBehavior::Removed);
  if (type == "BertPreTokenizer") return bert_pre_tokenizer(fields);
  if (type == "CharDelimiterSplit") return delimiter_pre_tokenizer(fields);
  return refuse_component(fields, "pre-tokenizer", type);
}

}  // namespace moec
