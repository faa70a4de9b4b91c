// Added tokens, such as <|im_start|>: matched in the text as a whole, before the model runs.
#pragma once

#include <bitset>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct AddedToken {
  int64_t id = 0;
  std::string content;
  bool single_word = false;             // matched only between non-word characters
  bool lstrip = false, rstrip = false;  // also consumes adjacent white space
  bool normalized = true;               // its normalized form is matched in the normalized text
  bool special = false;                 // omitted when decoding
};

// Leftmost-longest search for a set of added tokens.
class AddedTokenSearch {
 public:
  void add(std::string content, AddedToken token);
  bool empty() const { return tokens_.empty(); }

  // Calls part(text, token) for each part of the text in order; `token` is null between matches.
  using Part = std::function<Status(std::string_view text, const AddedToken* token)>;
  Status split(std::string_view text, const Part& part) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  const AddedToken* longest_at(std::string_view text, size_t at, size_t& length) const;

  std::unordered_map<std::string, AddedToken, Hash, std::equal_to<>> tokens_;
  static size_t place_of(std::string_view text);

  std::bitset<256> bytes_;         // single bytes that are tokens
  std::bitset<(1 << 16)> starts_;  // the first two bytes of longer tokens
  // Lengths of the longer tokens in bytes, by their first two bytes; descending.
  std::unordered_map<size_t, std::vector<size_t>> lengths_;
};

}  // namespace moec
