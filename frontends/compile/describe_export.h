// Describes a plan and its compiled shards as manifest entries.
#pragma once

#include <string>

#include "backends/emit/emit.h"
#include "backends/manifest/manifest.h"
#include "frontends/compile/compile_shard.h"
#include "models/plan/cut_options.h"

namespace moec {

manifest::Model describe_model(const ModelConfig& model);

// Returns the manifest without the parts that are only known later: tables, shards, files and
// devices. `budgets` are the limits that determined the cuts; `policy` selects a top-k variant.
Manifest describe_plan(const Plan& plan, const PassOptions& options, const Budgets& budgets,
                       const TopKPolicy& policy = {});

// Returns the entry of shard `index`, with files and weights from `emitted` and the placement of
// ops that the rules of `target` predict.
manifest::Shard describe_shard(const Plan& plan, size_t index, const CompiledShard& compiled,
                               const EmitReport& emitted, const Target& target);

}  // namespace moec
