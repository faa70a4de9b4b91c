// Compiles shards as an export needs them: for each of its token widths, or for their range.
#pragma once

#include <vector>

#include "backends/emit/emit.h"
#include "frontends/compile/compile_options.h"
#include "frontends/compile/compile_shard.h"

namespace moec {

// Compiles shard `index` of the plan with compile_for_range() for Core ML packages with a range of
// widths, otherwise with compile_shard(). Errors: those of the two.
Result<CompiledShard> compile_for_export(const Plan& plan, size_t index,
                                         const CompileOptions& options);

// The widths as an emitter takes them. The result points into `compiled`.
std::vector<ShardWidth> widths_of(const Plan& plan, const CompiledShard& compiled);

// Compiles the first shard of each kind and asks the emitter for its weights, without writing: so
// what the target cannot take of the options is found before the output folder exists. Errors:
// those of compile_for_export() and weight_views().
Status try_each_kind(const Plan& plan, const CompileOptions& options);

}  // namespace moec
