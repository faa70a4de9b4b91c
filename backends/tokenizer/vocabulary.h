// The tokens of a model and their ids.
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
  // Error tokenizer.malformed, without a place: the id is below 0 or above 2^24, or taken already
  // by another token.
  Status add(std::string token, int64_t id);
  std::optional<int64_t> find(std::string_view token) const {
    const auto found = ids_.find(token);
    if (found == ids_.end()) return std::nullopt;
    return found->second;
  }
  // Null if no token has the id.
  const std::string* token(int64_t id) const;
  // One above the greatest id.
  int64_t size() const { return std::ssize(tokens_); }
  size_t count() const { return ids_.size(); }
  const std::unordered_map<std::string_view, int64_t>& ids() const { return ids_; }

 private:
  std::vector<std::unique_ptr<const std::string>> tokens_;
  std::unordered_map<std::string_view, int64_t> ids_;  // of the texts that `tokens_` owns
};

}  // namespace moec
