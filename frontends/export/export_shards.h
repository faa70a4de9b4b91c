// The shards of an export: each is compiled, emitted and freed, or taken over from an earlier run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/export/export_job.h"
#include "passes/pipeline.h"

namespace moec {

struct ExportedShard {
  manifest::Shard shard;
  std::vector<ShardCost> costs;    // of a token, with each of plan.build.experts.top_k
  std::vector<PassReport> passes;  // of the widest width
  Diagnostics notes;
  uint64_t bytes_read = 0;  // of the checkpoint's payload
};

// Exports all shards of all targets; the result is by target, then in plan order. As many units
// (export_units.h) are in progress at a time as the first target has jobs, and what the targets of
// a unit have in common is read once. Errors: those of the first failing unit.
Result<std::vector<std::vector<ExportedShard>>> export_shards(std::span<const ExportJob> jobs);

}  // namespace moec
