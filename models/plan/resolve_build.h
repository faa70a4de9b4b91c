// Fills in what the options of a build leave to the model.
#pragma once

#include <string>
#include <vector>

#include "ir/target/target.h"
#include "models/plan/cut_shards.h"

namespace moec {

// Error export.flags where --kv, empty without the flag, is given for a model that keeps no cache.
Status check_kv_flag(const std::string& kv, const ModelConfig& model);
// The same for --mla and models without latent attention.
Status check_mla_flag(const std::string& mla, const ModelConfig& model);

// Fills in what depends on the model: the context (its positions, at most 2048), form and pages of
// the cache, slices and groups. Errors: models/plan/fit_target.h, models/plan/cut_shards.h.
Result<std::vector<ShardCut>> resolve_build(const ModelConfig& model, const Target& target,
                                            const CutOptions& cuts, BuildOptions& build);

}  // namespace moec
