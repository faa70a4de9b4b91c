// Whether two shards with one interface compute the same on seeded inputs.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/shard.h"

namespace moec::ir_test {

// A message for each output that differs: relative L2 above 1e-5 (f32), 5e-3 (f16), 4e-2 (bf16),
// any difference otherwise.
std::vector<std::string> compare_values(const Shard& before, const Shard& after);

}  // namespace moec::ir_test
