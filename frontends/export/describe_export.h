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

// The labels' names, by id.
std::vector<std::string> label_names(const manifest::Tagging& tagging);

// A shard's inputs, or its outputs.
std::vector<manifest::Port> ports_of(const Shard& shard, bool inputs);

// Where each op of a placed shard is predicted to run, by unit.
std::vector<manifest::Placement> predict_placement(const Shard& shard, const Target& target);

}  // namespace moec
