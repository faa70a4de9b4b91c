// What the passes that hold a shard to its target's sizes say where they cannot.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ir/target/target.h"

namespace moec {

// A size of `what`, the value itself or an op on it, that stays above a limit of the target.
// `sizes` says what is counted ("channels"), `next_step` how the model can be built with less.
inline tl::unexpected<Diagnostics> unsplittable(const Shard& shard, ValueId value,
                                                std::string_view what, int64_t size,
                                                std::string_view sizes, int64_t limit,
                                                const Target& target, std::string next_step) {
  return fail("limit.unsplittable",
              fmt::format("{} has {} {}, target {} takes {}, and it cannot be split", what, size,
                          sizes, target.name, limit),
              std::move(next_step), {.shard = shard.name, .op = shard.label(value)});
}

}  // namespace moec
