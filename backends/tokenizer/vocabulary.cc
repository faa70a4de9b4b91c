#include "backends/tokenizer/vocabulary.h"

#include <fmt/format.h>

#include "ir/base/json.h"

namespace moec {

// Bounds the memory that a single large id in an untrusted file can request, since ids are indices.
constexpr int64_t kMaxTokens = 1 << 24;

Status Vocabulary::add(std::string token, int64_t id) {
  const auto malformed = [&](std::string_view what) {
    return fail("tokenizer.malformed",
                fmt::format("the token \"{}\" {} {}", printable(token, 60), what, id),
                "fix tokenizer.json");
  };
  if (id < 0 || id > kMaxTokens) return malformed("has the invalid id");
  if (id >= size()) tokens_.resize(static_cast<size_t>(id) + 1);
  auto& slot = tokens_[static_cast<size_t>(id)];
  if (slot) return malformed("has the already used id");
  if (ids_.contains(token)) return malformed("is repeated, with the id");
  // The keys of `ids_` are views of the strings. A heap allocation per string keeps them valid when
  // the vector grows or the vocabulary moves.
  slot = std::make_unique<const std::string>(std::move(token));
  ids_.emplace(*slot, id);
  return {};
}

const std::string* Vocabulary::token(int64_t id) const {
  return id >= 0 && id < size() ? tokens_[static_cast<size_t>(id)].get() : nullptr;
}

}  // namespace moec
