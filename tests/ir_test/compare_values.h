// Compares two shards with equal interfaces on seeded inputs.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/shard.h"

namespace moec::ir_test {

// Returns one message per output that differs: by a relative L2 error above 1e-5 (f32), 5e-3 (f16)
// or 4e-2 (bf16), or by any difference for other types.
std::vector<std::string> compare_values(const Shard& before, const Shard& after);

}  // namespace moec::ir_test
