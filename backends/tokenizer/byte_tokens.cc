#include "backends/tokenizer/byte_tokens.h"

#include <filesystem>

#include "backends/tokenizer/byte_alphabet.h"
#include "backends/tokenizer/tokenizer.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr uint64_t kMaxBytes = 64u << 10;  // upper bound for a file with 256 tokens

// True if the vocabulary consists of the 256 characters of the byte alphabet, and each has the id
// of its byte.
bool ids_are_bytes(const JsonValue& vocabulary) {
  if (!vocabulary.object() || vocabulary.object()->size() != 256) return false;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const JsonValue* id = vocabulary.find(character_of_byte(static_cast<uint8_t>(byte)));
    if (!id || !id->integer() || *id->integer() != byte) return false;
  }
  return true;
}

bool is_empty(const JsonValue& value) {
  if (value.array()) return value.array()->empty();
  return value.is_null() || (value.object() && value.object()->empty());
}

// Without merges, every byte of a text remains one token, so ids and bytes are the same.
bool is_byte_model(const JsonValue& model) {
  const JsonValue* type = model.find("type");
  const JsonValue* merges = model.find("merges");
  const JsonValue* vocabulary = model.find("vocab");
  return type && type->string() && *type->string() == "BPE" && merges && is_empty(*merges) &&
         vocabulary && ids_are_bytes(*vocabulary);
}

}  // namespace

Result<bool> tokens_are_bytes(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "tokenizer.json").string();
  if (!file_exists(path)) return false;
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  // The size excludes ordinary tokenizers before their JSON is parsed.
  if (file.size() > kMaxBytes) return false;
  MOEC_ASSIGN(const std::string text, file.read(0, file.size()));
  const JsonReport report(
      text, path,
      JsonCodes::all_as("tokenizer.malformed",
                        "fix the file, or remove it to export without a tokenizer"));
  bool bytes = false;
  MOEC_TRY(
      report.parse_members(kTokenizerLimits, [&](const std::string& key, const JsonValue& value) {
        if (key == "model") bytes = is_byte_model(value);
        return Status();
      }));
  return bytes;
}

}  // namespace moec
