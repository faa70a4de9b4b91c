// BIOES tags: O is outside of any span, B-c begins a span of class c, I-c is inside, E-c ends it,
// S-c is a span of one token.
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

// The labels as tags, by id. Errors run.labels where one is no tag, or none is O.
Result<std::vector<Tag>> parse_tags(const manifest::Tagging& tagging);

// Whether a text may begin with the tag, or end with it.
bool may_begin(const Tag& tag);
bool may_end(const Tag& tag);

// The bias of the step from one tag to the next; nothing where that step is not legal.
std::optional<double> step_bias(const Tag& from, const Tag& to, const manifest::Tagging& tagging);

}  // namespace moec
