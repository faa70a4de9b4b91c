// Finds where attention appends new rows to a cache.
#pragma once

#include <optional>
#include <string>

#include "ir/graph/shard.h"

namespace moec {

struct AppendedRows {
  OpId concat;   // of the cache and the rows, [1, H, P + T, D]
  ValueId rows;  // [1, H, T, D]
};

// Nothing if an op other than one concatenation along the rows uses the cache.
std::optional<AppendedRows> appended_rows(const Shard& shard, ValueId cache);

// The input or output of this name; an invalid id, or null, if the shard has none.
ValueId find_input(const Shard& shard, const std::string& name);
const Output* find_output(const Shard& shard, const std::string& name);

}  // namespace moec
