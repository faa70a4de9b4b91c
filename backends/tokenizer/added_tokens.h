// Tokens that a text may name as a whole, such as <|im_start|>, wherever they stand.
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
  bool single_word = false;             // found between other than word characters only
  bool lstrip = false, rstrip = false;  // takes the white space before or behind it, too
  bool normalized = true;               // found in the normalized text, by its normalized content
  bool special = false;                 // left out when tokens become text
};

// Finds a set of tokens in a text: at each place the longest, from the left.
class AddedTokenSearch {
 public:
  void add(std::string content, AddedToken token);
  bool empty() const { return tokens_.empty(); }

  // part(text, token) for each part of the text in order; the token is null between tokens.
  using Part = std::function<Status(std::string_view text, const AddedToken* token)>;
  Status split(std::string_view text, const Part& part) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

  const AddedToken* longest_at(std::string_view text, size_t at, size_t& length) const;

  std::unordered_map<std::string, AddedToken, Hash, std::equal_to<>> tokens_;
  // By their first byte, how many bytes tokens have; the most first.
  std::array<std::vector<size_t>, 256> lengths_;
};

}  // namespace moec
