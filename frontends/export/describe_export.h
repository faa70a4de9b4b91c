// From plan and compiled shards to the manifest and report.json.
#pragma once

#include <string>

#include "backends/files/emit.h"
#include "backends/manifest/manifest.h"
#include "frontends/export/compile_shard.h"

namespace moec {

// Everything of the manifest that the plan knows; shards and tables are filled in by the export.
Manifest describe_plan(const Plan& plan, const PassOptions& options);

manifest::Shard describe_shard(const Plan& plan, size_t index, const CompiledShard& compiled,
                               const EmitReport& emitted, const Target& target);

}  // namespace moec
