// Shards compiled as an export needs them: for all its token widths, or for their range.
#pragma once

#include <vector>

#include "backends/files/emit.h"
#include "frontends/export/compile_shard.h"
#include "frontends/export/export_model.h"

namespace moec {

// Errors: those of compile_shard() and compile_for_range().
Result<CompiledShard> compile_for_export(const Plan& plan, size_t index,
                                         const ExportOptions& options);

// What an emitter takes; points into `compiled`.
std::vector<ShardWidth> widths_of(const Plan& plan, const CompiledShard& compiled);

// Compiles the first shard of each kind and lets the emitter look at it: what a target cannot take
// of the flags is found before there is a folder. Errors: as above, and those of weight_views().
Status try_each_kind(const Plan& plan, const ExportOptions& options);

}  // namespace moec
