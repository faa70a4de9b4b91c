// Compiles shards for an export, either for each token width or for a range of widths.
#pragma once

#include <vector>

#include "backends/emit/emit.h"
#include "frontends/compile/compile_options.h"
#include "frontends/compile/compile_shard.h"

namespace moec {

// Compiles shard `index` of the plan with compile_for_range() for Core ML packages with a range of
// widths, otherwise with compile_shard(). Errors: those of these functions.
Result<CompiledShard> compile_for_export(const Plan& plan, size_t index,
                                         const CompileOptions& options);

// Returns the graphs of a shard in the form that emitters accept. The result points into
// `compiled`.
std::vector<ShardWidth> widths_of(const Plan& plan, const CompiledShard& compiled);

// Requests specification version 9 for all packages of a plan with several widths and
// WidthPackaging::automatic if some of its shards have states. States need that version, so the
// other shards can have functions, too, without excluding a system.
void settle_spec_version(const Plan& plan, CoremlOptions& coreml);

// Compiles the first shard of each kind and queries the emitter for the shard's weights, without
// writing files. This reports options that the target does not support before the output folder is
// created. Errors: those of compile_for_export() and weight_views().
Status try_each_kind(const Plan& plan, const CompileOptions& options);

}  // namespace moec
