// A bidirectional map between tokens and ids.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

class Vocabulary {
 public:
  // Adds a token. Error: tokenizer.malformed, without a place, if the id is negative, above 2^24 or
  // in use, or if the token exists.
  Status add(std::string token, int64_t id);
  std::optional<int64_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  // Returns the token with this id, or null.
  const std::string* token(int64_t id) const;
  // Returns the largest id plus one.
  int64_t size() const { return std::ssize(tokens_); }
  size_t count() const { return ids_.size(); }
  const std::unordered_map<std::string_view, int64_t>& ids() const { return ids_; }

 private:
  std::vector<std::unique_ptr<const std::string>> tokens_;
  std::unordered_map<std::string_view, int64_t> ids_;  // views into `tokens_`
};

}  // namespace moec
