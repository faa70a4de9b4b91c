#include "backends/runtime/text/tokenizer.h"

#include <filesystem>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMaxTokenizerBytes = 64u << 20;
// A token or merge is a few values, so the bytes are what limits a tokenizer.
constexpr JsonLimits kJsonLimits{.bytes = kMaxTokenizerBytes, .values = kMaxTokenizerBytes / 4};

// The code point that byte-level BPE writes for a byte: printable Latin-1 stands for itself, the
// others are moved to 256 and up in order of the byte (the GPT-2 byte alphabet).
std::vector<uint32_t> byte_alphabet() {
  std::vector<uint32_t> alphabet(256);
  uint32_t moved = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) ||
                           (byte >= 0xae && byte <= 0xff);
    alphabet[byte] = printable ? byte : moved++;
  }
  return alphabet;
}

std::string utf8(uint32_t code) {  // below 0x800 in this alphabet
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3f))};
}

bool ids_are_bytes(const JsonValue& vocabulary) {
  if (!vocabulary.object() || vocabulary.object()->size() != 256) return false;
  const std::vector<uint32_t> alphabet = byte_alphabet();
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const JsonValue* id = vocabulary.find(utf8(alphabet[byte]));
    if (!id || !id->integer() || *id->integer() != byte) return false;
  }
  return true;
}

bool is_empty(const JsonValue& value) {
  if (value.array()) return value.array()->empty();
  return value.is_null() || (value.object() && value.object()->empty());
}

// Byte-level BPE without merges, whose token ids are the byte values.
bool tokens_are_bytes(const JsonValue& model) {
  const JsonValue* type = model.find("type");
  const JsonValue* merges = model.find("merges");
  const JsonValue* vocabulary = model.find("vocab");
  return type && type->string() && *type->string() == "BPE" && merges && is_empty(*merges) &&
         vocabulary && ids_are_bytes(*vocabulary);
}

}  // namespace

Result<TokenizerKind> detect_tokenizer(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "tokenizer.json").string();
  if (!file_exists(path)) return TokenizerKind::none;
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  if (file.size() > kMaxTokenizerBytes) return TokenizerKind::none;
  MOEC_ASSIGN(const std::string text, file.read(0, file.size()));
  const JsonReport report(
      text, path,
      JsonCodes::all_as("tokenizer.malformed",
                        "mend the file, or remove it to export without a tokenizer"));
  bool bytes = false;
  MOEC_TRY(report.parse_members(kJsonLimits, [&](const std::string& key, const JsonValue& value) {
    if (key == "model") bytes = tokens_are_bytes(value);
    return Status();
  }));
  return bytes ? TokenizerKind::bytes : TokenizerKind::none;
}

std::vector<int64_t> encode_bytes(std::string_view text) {
  std::vector<int64_t> tokens;
  for (char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

std::string decode_bytes(const std::vector<int64_t>& tokens) {
  std::string text;
  for (int64_t token : tokens) text += token >= 0 && token < 256 ? static_cast<char>(token) : '?';
  return text;
}

}  // namespace moec
