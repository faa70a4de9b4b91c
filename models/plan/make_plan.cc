#include "models/plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ir/target/target.h"
#include "ir/target/weight_support.h"
#include "models/plan/cut_shards.h"
#include "models/plan/fit_target.h"
#include "models/plan/plan_model.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {

namespace {

// ---- Build options that depend on the model ----------------------------------------------------

// The default is limited, because caches and masks grow with the context.
static constexpr int64_t kDefaultContext = 2048;

// `kv` is the value of --kv, empty without the flag. Error export.flags: the flag is given, but the
// model has no cache.
Status check_kv_flag(const std::string& kv, const ModelConfig& model) {
  if (kv.empty() || model.keeps_cache()) return {};
  return fail("export.flags",
              fmt::format("--kv {}: {} keeps no cache, because it processes a text as a whole", kv,
                          model.family),
              "omit --kv");
}

// `mla` is the value of --mla. Error export.flags: the flag is given, but the model has no latent
// attention.
Status check_mla_flag(const std::string& mla, const ModelConfig& model) {
  if (mla.empty() || model.attention.latent) return {};
  return fail("export.flags",
              fmt::format("--mla {}: {} has no latent attention", mla, model.family), "omit --mla");
}

// Sets the context if it is 0 (the model's positions, at most 2048), the form and pages of the
// cache, the slices of the head and the expert groups. Returns the reasons for the cuts. Errors:
// those of check_weight_policy(), check_copied_codes(), fit_to_target() and cut_shards().
Result<std::vector<ShardCut>> resolve_build(const ModelConfig& model, const Target& target,
                                            const CutOptions& cuts, BuildOptions& build) {
  if (build.context == 0) build.context = std::min(model.max_positions, kDefaultContext);
  MOEC_TRY(check_weight_policy(build.weights, std::ssize(model.layers), build.dtype));
  MOEC_TRY(check_copied_codes(target, build.weights, model.stored));
  MOEC_TRY(fit_to_target(model, target, build));
  return cut_shards(model, cuts, build);
}

}  // namespace

// Only the tensors of a checkpoint show which weights are codes.
static Status check_copies(const WeightPolicy& policy, const WeightTable& weights) {
  const std::vector<WeightForm> forms = policy.forms();
  if (!is_declared(weights) || std::none_of(forms.begin(), forms.end(), is_copy)) return {};
  return fail("weights.copy", "--weights copy: a config does not state which weights are quantized",
              "pass the checkpoint's folder, or a form such as experts=int4");
}

// Options about experts have no effect on a model without experts.
static std::optional<Diagnostic> note_no_experts(const ModelConfig& model,
                                                 const PlanRequest& request) {
  const bool has_experts = std::any_of(model.layers.begin(), model.layers.end(),
                                       [](const LayerConfig& layer) { return layer.moe; });
  const bool asked = request.build.host_routing || request.cuts.experts_per_shard > 0 ||
                     !request.cuts.expert_groups.empty();
  if (has_experts || !asked) return std::nullopt;
  return Diagnostic{Severity::note,
                    "plan.no_experts",
                    "--routing host, --experts-per-shard and --expert-groups have no effect "
                    "on a model without experts",
                    "omit these flags",
                    {}};
}

// Layers are removed first, because the remaining ones determine whether a requested form fits the
// model and how the budgets cut it.
Result<MadePlan> make_plan(ModelConfig model, WeightTable weights, const Target& target,
                           PlanRequest request) {
  if (request.first_layers > 0) MOEC_TRY(keep_first_layers(model, weights, request.first_layers));
  MOEC_TRY(check_kv_flag(request.kv, model));
  MOEC_TRY(check_mla_flag(request.mla, model));
  MadePlan made;
  if (auto note = note_no_experts(model, request)) made.notes.push_back(std::move(*note));
  if (request.mla.empty())
    if (auto note = choose_mla_form(model, target, request.build))
      made.notes.push_back(std::move(*note));
  MOEC_ASSIGN(made.cuts, resolve_build(model, target, request.cuts, request.build));
  MOEC_TRY(check_copies(request.build.weights, weights));
  MOEC_ASSIGN(made.plan,
              plan_model(std::move(model), std::move(weights), std::move(request.build)));
  return made;
}

Status keep_first_layers(ModelConfig& model, WeightTable& weights, int64_t count) {
  const auto layers = std::ssize(model.layers);
  if (count < 1 || count > layers)
    return fail("model.layers_kept",
                fmt::format("{} layers were requested, but the model has {}", count, layers),
                fmt::format("choose 1 to {}", layers));
  const std::vector<NeededTensor> before = needed_tensors(model);
  model.layers.resize(static_cast<size_t>(count));
  model.stored.left_out_layers += layers - count;
  // Compares tensor names, so that a tensor that remaining layers share is kept.
  std::set<std::string> kept;
  for (NeededTensor& tensor : needed_tensors(model)) kept.insert(std::move(tensor.name));
  for (const NeededTensor& tensor : before) {
    if (kept.contains(tensor.name)) continue;
    // This loop precedes the removal from `derived`, because stored_tensors() reads `derived`.
    for (const StoredTensor& stored : stored_tensors(weights, model.stored, tensor))
      weights.tensors.erase(stored.tensor.name);
    weights.derived.erase(tensor.name);
  }
  return {};
}

}  // namespace moec
