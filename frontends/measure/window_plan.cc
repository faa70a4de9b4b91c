#include "frontends/measure/window_plan.h"

#include <algorithm>

#include "backends/weights/encode/hessian_sum.h"
#include "models/plan/plan_model.h"

namespace moec {
namespace {

// A calibration needs only the head's inputs, so the head is cut into slices of about this many
// rows.
constexpr int64_t kHeadRows = 64;

// Returns the bytes of an expert while its layer runs: the weights, and the Hessian sums of its
// inputs.
uint64_t bytes_of_expert(const ModelConfig& model, uint64_t group_bytes) {
  const auto sums = [&](int64_t inputs) {
    return static_cast<uint64_t>(inputs * summed_together(inputs, sum_bytes(group_bytes)));
  };
  const auto d = static_cast<uint64_t>(model.expert_width()),
             f = static_cast<uint64_t>(model.moe.expert_ff);
  return (3 * d * f + sums(model.expert_width()) + sums(model.moe.expert_ff)) * sizeof(float);
}

}  // namespace

Result<Plan> window_plan(ModelConfig model, WeightTable weights, int64_t window,
                         uint64_t group_bytes) {
  BuildOptions options;
  options.layout = Layout::rows;
  options.tokens = {window};
  options.context = window;
  options.cache = model.keeps_cache() ? CacheForm::append : CacheForm::none;
  if (model.attention.latent) options.mla = MlaForm::expanded;
  options.head_slices = std::max<int64_t>(1, model.logits() / kHeadRows);
  const uint64_t each = bytes_of_expert(model, group_bytes);
  // Dividing avoids the overflow of each · experts.
  if (model.moe.experts > 0 && each > group_bytes / static_cast<uint64_t>(model.moe.experts)) {
    options.host_routing = true;
    options.experts_per_shard = static_cast<int64_t>(std::max<uint64_t>(1, group_bytes / each));
  }
  return plan_model(std::move(model), std::move(weights), options);
}

}  // namespace moec
