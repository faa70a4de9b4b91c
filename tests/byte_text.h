// Texts of models with byte tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backends/tokenizer/model_tokenizer.h"

namespace moec {

inline std::vector<int64_t> encode_bytes(std::string_view text) {
  std::vector<int64_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

inline std::string decode_bytes(const std::vector<int64_t>& tokens) {
  std::string text;
  for (const int64_t token : tokens) text += static_cast<char>(token);
  return text;
}

inline ModelTokenizer byte_tokenizer() { return {Tokenizer::bytes, 256}; }
inline ModelTokenizer no_tokenizer() { return {{}, 256}; }

}  // namespace moec
