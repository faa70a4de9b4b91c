#include "models/plan/make_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "models/plan/first_layers.h"
#include "models/plan/fit_target.h"
#include "models/plan/plan_model.h"
#include "models/plan/resolve_build.h"

namespace moec {

// Which weights are codes is seen from the tensors of a checkpoint. Tensors that a config alone
// declares lie in a file without a path.
static Status check_copies(const WeightPolicy& policy, const WeightTable& weights) {
  const std::vector<WeightForm> forms = policy.forms();
  const bool declared = !weights.files.empty() && weights.files.front().path.empty();
  if (!declared || std::none_of(forms.begin(), forms.end(), is_copy)) return {};
  return fail("weights.copy", "--weights copy: a config does not tell which weights are codes",
              "give the folder of the checkpoint, or the form itself, such as experts=int4");
}

// What is asked of experts means nothing to a model that has none.
static std::optional<Diagnostic> note_no_experts(const ModelConfig& model,
                                                 const PlanRequest& request) {
  const bool has_experts = std::any_of(model.layers.begin(), model.layers.end(),
                                       [](const LayerConfig& layer) { return layer.moe; });
  const bool asked = request.build.host_routing || request.cuts.experts_per_shard > 0 ||
                     !request.cuts.expert_groups.empty();
  if (has_experts || !asked) return std::nullopt;
  return Diagnostic{Severity::note,
                    "plan.no_experts",
                    "the model has no experts: --routing host, --experts-per-shard and "
                    "--expert-groups change nothing",
                    "leave them out",
                    {}};
}

// Layers are dropped first, because the remaining ones decide whether a requested form fits the
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

}  // namespace moec
