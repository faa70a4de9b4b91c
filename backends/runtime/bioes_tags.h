// BIOES tags: O is outside of any span; B-c begins a span of class c, I-c continues it and E-c ends
// it; S-c is a span of one token.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

enum class TagRole : uint8_t { outside, begin, inside, end, single };

struct Tag {
  TagRole role = TagRole::outside;
  std::string span_class;  // empty with outside
  bool operator==(const Tag&) const = default;
};

// The labels as tags, by id. Error run.labels: a label is not a tag, or none is O.
Result<std::vector<Tag>> parse_tags(const manifest::Tagging& tagging);

// Whether a legal sequence may begin or end with the tag.
bool may_begin(const Tag& tag);
bool may_end(const Tag& tag);

// The bias of the transition between two neighbouring tags; nothing if the transition is not legal.
std::optional<double> step_bias(const Tag& from, const Tag& to, const manifest::Tagging& tagging);

}  // namespace moec
