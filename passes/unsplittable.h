// The error of passes that cannot bring a size within a limit of the target.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "ir/target/target.h"

namespace moec {

// A size above a limit of the target.
struct ExcessSize {
  std::string_view what;  // has the size: the value itself, or an op on it
  int64_t size = 0;
  std::string_view unit;  // what is counted: "channels"
  int64_t limit = 0;
};

// Error limit.unsplittable; `next_step` says how the model can be built with a smaller size.
inline tl::unexpected<Diagnostics> unsplittable(const Shard& shard, ValueId value,
                                                const ExcessSize& excess, const Target& target,
                                                std::string next_step) {
  return fail("limit.unsplittable",
              fmt::format("{} has {} {}, target {} takes {}, and it cannot be split", excess.what,
                          excess.size, excess.unit, target.name, excess.limit),
              std::move(next_step), {.shard = shard.name, .op = shard.label(value)});
}

}  // namespace moec
