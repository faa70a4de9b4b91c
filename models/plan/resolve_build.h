// Completes the build options that depend on the model.
#pragma once

#include <string>
#include <vector>

#include "ir/target/target.h"
#include "models/plan/cut_shards.h"

namespace moec {

// `kv` is the value of --kv, empty without the flag. Error export.flags: the flag is given, and the
// model keeps no cache.
Status check_kv_flag(const std::string& kv, const ModelConfig& model);
// The same for --mla and models without latent attention.
Status check_mla_flag(const std::string& mla, const ModelConfig& model);

// Sets the context where it is 0 (the model's positions, at most 2048), the form and pages of the
// cache, the slices of the head and the groups of experts. Returns the reasons for the cuts.
// Errors: those of check_weight_policy(), check_copied_codes(), fit_to_target() and cut_shards().
Result<std::vector<ShardCut>> resolve_build(const ModelConfig& model, const Target& target,
                                            const CutOptions& cuts, BuildOptions& build);

}  // namespace moec
