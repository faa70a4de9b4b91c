// Added tokens, such as <|im_start|>: matched in the text as a whole, before the model runs.
#pragma once

#include <array>
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
  bool normalized = true;               // matched in the normalized text, normalized itself
  bool special = false;                 // omitted by decoding
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
  // Lengths of the tokens in bytes, by first byte; descending.
  std::array<std::vector<size_t>, 256> lengths_;
};

}  // namespace moec
