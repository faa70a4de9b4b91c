// Selects the shards of a plan that a test of graphs must cover.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "models/plan/shard_sizes.h"

namespace moec {

// Ascending indices of one shard per shape: shards of one shape differ only in the numbers of their
// layer, experts or vocabulary rows (measure_shards()), so their graphs have the same ops.
inline std::set<size_t> distinct_shards(const Plan& plan) {
  const auto sizes = measure_shards(plan, [](size_t) { return CompiledSize{}; });
  EXPECT_TRUE(sizes) << render(sizes.error());
  std::set<size_t> indices;
  if (sizes)
    for (const ShardSize& size : *sizes) indices.insert(size.measured);
  return indices;
}

}  // namespace moec
