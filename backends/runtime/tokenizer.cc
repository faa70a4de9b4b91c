#include "backends/runtime/tokenizer.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace moec {
namespace {

using nlohmann::json;

constexpr uintmax_t kMaxTokenizerBytes = 64u << 20;

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

bool ids_are_bytes(const json& vocabulary) {
  if (!vocabulary.is_object() || vocabulary.size() != 256) return false;
  const std::vector<uint32_t> alphabet = byte_alphabet();
  for (uint32_t byte = 0; byte < 256; ++byte) {
    auto entry = vocabulary.find(utf8(alphabet[byte]));
    if (entry == vocabulary.end() || !entry->is_number_unsigned() || entry->get<uint64_t>() != byte)
      return false;
  }
  return true;
}

}  // namespace

Result<TokenizerKind> detect_tokenizer(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "tokenizer.json").string();
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error || size > kMaxTokenizerBytes) return TokenizerKind::none;
  std::ifstream file(path);
  const json document = json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded())
    return fail("tokenizer.malformed", "tokenizer.json is not valid JSON",
                "mend the file, or remove it to export without a tokenizer", {.file = path});
  if (!document.is_object() || !document.contains("model")) return TokenizerKind::none;
  const json& model = document["model"];
  const bool bytes = model.is_object() && model.value("type", "") == "BPE" &&
                     model.contains("merges") && model["merges"].empty() &&
                     model.contains("vocab") && ids_are_bytes(model["vocab"]);
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
