// Describes a plan and its compiled shards in the terms of the manifest.
#pragma once

#include <string>

#include "backends/emit/emit.h"
#include "backends/manifest/manifest.h"
#include "frontends/compile/compile_shard.h"
#include "models/plan/cut_options.h"

namespace moec {

manifest::Model describe_model(const ModelConfig& model);

// The manifest without what becomes known later: tables, shards, files, devices. `budgets` are
// those by which the model was cut, `policy` the rules that choose a form of top-k.
Manifest describe_plan(const Plan& plan, const PassOptions& options, const Budgets& budgets,
                       const TopKPolicy& policy = {});

// The entry of shard `index`; `emitted` tells its files and weights, `target` the rules that
// predict the placement of its ops.
manifest::Shard describe_shard(const Plan& plan, size_t index, const CompiledShard& compiled,
                               const EmitReport& emitted, const Target& target);

}  // namespace moec
