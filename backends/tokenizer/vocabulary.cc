#include "backends/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include "ir/base/json.h"

namespace moec {

constexpr int64_t kMostTokens = 1 << 24;

Status Vocabulary::add(std::string token, int64_t id) {
  const auto malformed = [&](std::string_view what) {
    return fail("tokenizer.malformed",
                fmt::format("the token \"{}\" {} {}", printable(token, 60), what, id),
                "fix tokenizer.json");
  };
  if (id < 0 || id > kMostTokens) return malformed("has the impossible id");
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  auto& slot = tokens_[static_cast<size_t>(id)];
  if (slot) return malformed("shares with another one the id");
  if (ids_.contains(token)) return malformed("is there twice, again with the id");
  slot = std::make_unique<const std::string>(std::move(token));
  ids_.emplace(*slot, id);
  return {};
}

const std::string* Vocabulary::token(int64_t id) const {
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)].get() : nullptr;
}

}  // namespace moec
