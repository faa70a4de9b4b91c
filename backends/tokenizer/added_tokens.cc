#include "backends/tokenizer/added_tokens.h"

#include <algorithm>

#include "backends/tokenizer/unicode.h"

namespace moec {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U; }

// The offset of the character before `at`. `at` must be above 0, and the text must be valid UTF-8.
size_t previous(std::string_view text, size_t at) {
  do --at;
  while (at > 0 && is_continuation(text[at]));
  return at;
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  size_t at = previous(text, text.size());
  return is_word(next_code_point(text, at));
}

bool begins_with_word(std::string_view text) {
  size_t at = 0;
  return !text.empty() && is_word(next_code_point(text, at));
}

// Returns the offset at which the trailing white space of text[from, end) begins.
size_t space_before(std::string_view text, size_t from, size_t end) {
  while (end > from) {
    const size_t begin = previous(text, end);
    size_t at = begin;
    if (!is_white_space(next_code_point(text, at))) break;
    end = begin;
  }
  return end;
}

size_t space_behind(std::string_view text, size_t at) {
  for (size_t next = at; next < text.size(); at = next)
    if (!is_white_space(next_code_point(text, next))) break;
  return at;
}

}  // namespace

size_t AddedTokenSearch::place_of(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]),
             second = static_cast<unsigned char>(text[1]);
  return size_t{first} << 8U | second;
}

// Tokens of one byte have no second byte, so they are in `bytes_` instead of `starts_`. Both sets
// avoid hash lookups at most positions of a text.
void AddedTokenSearch::add(std::string content, AddedToken token) {
  if (content.size() == 1) {
    bytes_.set(static_cast<unsigned char>(content.front()));
  } else {
    starts_.set(place_of(content));
    auto& lengths = lengths_[place_of(content)];
    lengths.push_back(content.size());
    // Descending lengths make the first hit of longest_at() the longest token.
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
  tokens_.insert_or_assign(std::move(content), std::move(token));
}

// Returns the longest token that begins at `at` and its length in bytes, or null. tokenizers also
// prefers the longest of several tokens.
const AddedToken* AddedTokenSearch::longest_at(std::string_view text, size_t at,
                                               size_t& length) const {
  const auto find = [&](size_t bytes) -> const AddedToken* {
    const auto found = tokens_.find(text.substr(at, bytes));
    if (found == tokens_.end()) return nullptr;
    length = bytes;
    return &found->second;
  };
  if (at + 1 < text.size() && starts_.test(place_of(text.substr(at))))
    for (const size_t bytes : lengths_.at(place_of(text.substr(at))))
      if (bytes <= text.size() - at)
        if (const AddedToken* token = find(bytes)) return token;
  return bytes_.test(static_cast<unsigned char>(text[at])) ? find(1) : nullptr;
}

Status AddedTokenSearch::split(std::string_view text, const Part& part) const {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    const AddedToken* token = longest_at(text, at, length);
    if (!token) {
      ++at;
      continue;
    }
    // A match that `single_word` rejects is skipped as a whole, as in tokenizers: a shorter token
    // inside it is not tried.
    const size_t begin = at, end = at + length;
    at = end;
    if (token->single_word &&
        (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end))))
      continue;
    // `lstrip` stops at `done`, because `rstrip` of the previous token may have consumed the same
    // white space.
    const size_t from = token->lstrip ? space_before(text, done, begin) : begin;
    const size_t to = token->rstrip ? space_behind(text, end) : end;
    if (done < from) MOEC_TRY(part(text.substr(done, from - done), nullptr));
    MOEC_TRY(part(text.substr(from, to - from), token));
    done = to;
  }
  return done < text.size() ? part(text.substr(done), nullptr) : Status();
}

}  // namespace moec
