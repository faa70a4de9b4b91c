#include "models/plan/resolve_build.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/target/weight_support.h"
#include "models/plan/fit_target.h"

namespace moec {

// The cache of each layer grows with the context, and so do masks. Longer contexts are a choice of
// the user's.
static constexpr int64_t kDefaultContext = 2048;

Status check_kv_flag(const std::string& kv, const ModelConfig& model) {
  if (kv.empty() || model.keeps_cache()) return {};
  return fail("export.flags",
              fmt::format("--kv {}: {} keeps no cache, because it reads a text as a whole", kv,
                          model.family),
              "Leave --kv out.");
}

Status check_mla_flag(const std::string& mla, const ModelConfig& model) {
  if (mla.empty() || model.attention.latent) return {};
  return fail("export.flags",
              fmt::format("--mla {}: {} has no latent attention", mla, model.family),
              "Leave --mla out.");
}

Result<std::vector<ShardCut>> resolve_build(const ModelConfig& model, const Target& target,
                                            const CutOptions& cuts, BuildOptions& build) {
  if (build.context == 0) build.context = std::min(model.max_positions, kDefaultContext);
  MOEC_TRY(check_weight_policy(build.weights, std::ssize(model.layers), build.dtype));
  MOEC_TRY(check_copied_codes(target, build.weights, model.stored));
  MOEC_TRY(fit_to_target(model, target, build));
  return cut_shards(model, cuts, build);
}

}  // namespace moec
