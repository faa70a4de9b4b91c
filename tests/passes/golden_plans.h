// Plans of the golden checkpoints, for tests of whole shards.
#pragma once

#include "backends/weights/views/equal_tensors.h"
#include "frontends/sources/hf/checkpoint.h"
#include "models/plan/plan_model.h"
#include "models/shards/build_shard.h"
#include "tests/golden_cases.h"
#include "tests/passes/pass_testing.h"
#include "tests/source_dir.h"

namespace moec {

// Caches the last checkpoint, because tests plan one checkpoint with many options.
inline const Checkpoint& golden_checkpoint(const std::string& name) {
  static std::string kept;
  static Checkpoint checkpoint;
  if (name == kept) return checkpoint;
  const std::string folder = (name.starts_with("tiny") ? "/models/" : "/tests/golden/") + name;
  auto opened = open_checkpoint(source_dir() + folder, equal_tensors);
  EXPECT_TRUE(opened.has_value()) << render(opened.error());
  checkpoint = opened ? std::move(*opened) : Checkpoint{};
  kept = opened ? name : "";
  return checkpoint;
}

inline Plan golden_plan(const std::string& name, const BuildOptions& options) {
  const Checkpoint& checkpoint = golden_checkpoint(name);
  auto plan = plan_model(checkpoint.config, checkpoint.weights, options);
  EXPECT_TRUE(plan.has_value()) << render(plan.error());
  return plan ? std::move(*plan) : Plan{};
}

inline Shard golden_shard(const Plan& plan, size_t index, int64_t tokens) {
  auto shard = build_shard(plan, index, tokens);
  EXPECT_TRUE(shard.has_value()) << render(shard.error());
  return shard ? std::move(*shard) : Shard{};
}

inline std::string case_name(const testing::TestParamInfo<const char*>& info) { return info.param; }

}  // namespace moec
