#include "backends/tokenizer/normalizers.h"

#include <array>
#include <utility>
#include <vector>

#include "backends/tokenizer/byte_alphabet.h"
#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

// Returns the concatenation of the text that `append` appends for each code point.
template <class Append>
std::string map_code_points(std::string_view text, Append append) {
  std::string mapped;
  mapped.reserve(text.size());
  for (size_t at = 0; at < text.size();) append(mapped, next_code_point(text, at));
  return mapped;
}

std::string lower(std::string_view text) { return map_code_points(text, append_lower); }

// Removes the code points for which `drop` returns true.
std::string without(std::string_view text, bool (*drop)(char32_t)) {
  return map_code_points(text, [&](std::string& kept, char32_t code) {
    if (!drop(code)) append_utf8(kept, code);
  });
}

// Two scans from the front, because UTF-8 cannot be read backwards with next_code_point().
std::string_view strip(std::string_view text, bool left, bool right) {
  size_t begin = 0;
  for (size_t at = 0; left && at < text.size(); begin = at)
    if (!is_white_space(next_code_point(text, at))) break;
  size_t end = begin;  // after the last kept character
  for (size_t at = begin; at < text.size();)
    if (!is_white_space(next_code_point(text, at))) end = at;
  return text.substr(begin, (right ? end : text.size()) - begin);
}

// The ranges of handle_chinese_chars (BERT's tokenizer).
bool is_ideograph(char32_t code) {
  // tokenizers begins the sixth range at 0x2b920, but the original BERT code begins it at 0x2b820.
  static constexpr std::array<std::pair<char32_t, char32_t>, 8> kRanges = {{{0x4e00, 0x9fff},
                                                                            {0x3400, 0x4dbf},
                                                                            {0x20000, 0x2a6df},
                                                                            {0x2a700, 0x2b73f},
                                                                            {0x2b740, 0x2b81f},
                                                                            {0x2b920, 0x2ceaf},
                                                                            {0xf900, 0xfaff},
                                                                            {0x2f800, 0x2fa1f}}};
  for (const auto& [first, last] : kRanges)
    if (code >= first && code <= last) return true;
  return false;
}

// Tab, newline and carriage return are in category Cc, but BERT treats them as white space.
void append_clean(std::string& text, char32_t code) {
  const bool ends_line = code == '\t' || code == '\n' || code == '\r';
  if (code == 0 || code == 0xfffd || (!ends_line && is_control_or_other(code))) return;
  if (is_white_space(code))
    text += ' ';
  else
    append_utf8(text, code);
}

void append_apart(std::string& text, char32_t code) {
  const bool apart = is_ideograph(code);
  if (apart) text += ' ';
  append_utf8(text, code);
  if (apart) text += ' ';
}

Result<Normalizer> bert_normalizer(JsonFields& fields) {
  MOEC_ASSIGN(const bool cleans, flag(fields, "clean_text", true));
  MOEC_ASSIGN(const bool sets_apart, flag(fields, "handle_chinese_chars", true));
  MOEC_ASSIGN(const bool lowers, flag(fields, "lowercase", true));
  // A null strip_accents follows lowercase, as in the original BERT tokenizer.
  MOEC_ASSIGN(const bool strips, flag(fields, "strip_accents", lowers));
  MOEC_TRY(fields.finish());
  return [=](std::string& text) -> Status {
    // The order is that of tokenizers: accents are separated and removed before the text becomes
    // lower case.
    if (cleans) text = map_code_points(text, append_clean);
    if (sets_apart) text = map_code_points(text, append_apart);
    if (strips) text = without(to_normal_form(text, NormalForm::nfd), is_nonspacing_mark);
    if (lowers) text = lower(text);
    return {};
  };
}

Result<Normalizer> strip_normalizer(JsonFields& fields) {
  MOEC_ASSIGN(const bool left, flag(fields, "strip_left", true));
  MOEC_ASSIGN(const bool right, flag(fields, "strip_right", true));
  MOEC_TRY(fields.finish());
  return [=](std::string& text) -> Status {
    text = std::string(strip(text, left, right));
    return {};
  };
}

Result<Normalizer> prepend_normalizer(JsonFields& fields) {
  std::string prefix;
  MOEC_TRY(fields.text("prepend", prefix));
  MOEC_TRY(fields.finish());
  return [prefix](std::string& text) -> Status {
    // An empty text gets no prefix, so that it still has no tokens.
    if (!text.empty()) text.insert(0, prefix);
    return {};
  };
}

Result<Normalizer> sequence_normalizer(JsonFields& fields) {
  MOEC_ASSIGN(const auto steps, read_components(fields, "normalizers", read_normalizer));
  MOEC_TRY(fields.finish());
  // For callers, an empty function means that the text does not change.
  if (steps.empty()) return Normalizer();
  return [steps](std::string& text) -> Status {
    for (const Normalizer& step : steps) MOEC_TRY(step(text));
    return {};
  };
}

// A normalizer without parameters.
template <class Map>
Result<Normalizer> plain(JsonFields& fields, Map map) {
  MOEC_TRY(fields.finish());
  return [map](std::string& text) -> Status {
    text = map(text);
    return {};
  };
}

std::string in_byte_alphabet(std::string_view text) {
  std::string mapped;
  for (const char c : text) mapped += character_of_byte(static_cast<uint8_t>(c));
  return mapped;
}

constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms = {
    {{"NFC", NormalForm::nfc},
     {"NFD", NormalForm::nfd},
     {"NFKC", NormalForm::nfkc},
     {"NFKD", NormalForm::nfkd}}};

}  // namespace

// A pattern has either "Regex" or "String". finish() rejects an object that has both.
Result<Pattern> read_pattern(JsonFields& owner, std::string_view name) {
  MOEC_ASSIGN(JsonFields fields, owner.object(name));
  const bool is_regex = fields.has("Regex");
  std::string text;
  MOEC_TRY(fields.text(is_regex ? "Regex" : "String", text));
  MOEC_TRY(fields.finish());
  return is_regex ? Pattern::regex(text) : Pattern::literal(text);
}

Result<Normalizer> read_replace_normalizer(JsonFields& fields) {
  MOEC_ASSIGN(const Pattern pattern, read_pattern(fields, "pattern"));
  std::string content;
  MOEC_TRY(fields.text("content", content));
  MOEC_TRY(fields.finish());
  return [pattern, content](std::string& text) -> Status {
    std::vector<TextRange> parts;
    MOEC_TRY(pattern.find(text, parts));
    std::string replaced;
    replaced.reserve(text.size());
    for (const TextRange& part : parts)
      replaced +=
          part.matches ? content : std::string_view(text).substr(part.begin, part.end - part.begin);
    text = std::move(replaced);
    return {};
  };
}

Result<Normalizer> read_normalizer(const JsonReport& report, const JsonValue& value) {
  if (value.is_null()) return Normalizer();
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value, "normalizer"));
  std::string type;
  MOEC_TRY(fields.text("type", type));
  for (const auto& [name, form] : kForms)
    if (type == name)
      return plain(fields, [form = form](const std::string& s) { return to_normal_form(s, form); });
  if (type == "Sequence") return sequence_normalizer(fields);
  if (type == "Replace") return read_replace_normalizer(fields);
  if (type == "Prepend") return prepend_normalizer(fields);
  if (type == "Strip") return strip_normalizer(fields);
  if (type == "BertNormalizer") return bert_normalizer(fields);
  if (type == "Lowercase") return plain(fields, lower);
  if (type == "StripAccents")
    return plain(fields, [](const std::string& text) { return without(text, is_mark); });
  // As a normalizer, ByteLevel adds no space and does not split; it only maps bytes to characters.
  if (type == "ByteLevel") return plain(fields, in_byte_alphabet);
  return refuse_component(fields, "normalizer", type);
}

}  // namespace moec
