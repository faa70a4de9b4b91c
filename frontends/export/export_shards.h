// Exports shards: each is compiled, emitted and freed, or reused from an earlier run.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/compile/compile_shard.h"
#include "frontends/export/export_job.h"
#include "passes/pipeline.h"

namespace moec {

struct ExportedShard {
  manifest::Shard shard;
  std::vector<ShardCost> costs;        // per token, one for each of plan.build.experts.top_k
  std::vector<PassReport> passes;      // of the widest width
  std::optional<DecoderPart> decoder;  // if the target has a decoder graph
  Diagnostics notes;
  uint64_t bytes_read = 0;  // from the checkpoint's payload
};

// Exports the packages of all targets. Returns their shards by target, then in plan order.
// Processes jobs.front().workers units (export_units.h) at a time; tensors that the targets of a
// unit have in common are read once. Errors: those of the first failing unit.
Result<std::vector<std::vector<ExportedShard>>> export_shards(std::span<const ExportJob> jobs);

}  // namespace moec
