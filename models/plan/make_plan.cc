#include "models/plan/make_plan.h"

#include "models/plan/first_layers.h"
#include "models/plan/fit_target.h"
#include "models/plan/plan_model.h"
#include "models/plan/resolve_build.h"

namespace moec {

// Layers are dropped first, because the remaining ones decide whether a requested form fits the
// model and how the budgets cut it.
Result<MadePlan> make_plan(ModelConfig model, WeightTable weights, const Target& target,
                           PlanRequest request) {
  if (request.first_layers > 0) MOEC_TRY(keep_first_layers(model, weights, request.first_layers));
  MOEC_TRY(check_kv_flag(request.kv, model));
  MOEC_TRY(check_mla_flag(request.mla, model));
  MadePlan made;
  if (request.mla.empty())
    if (auto note = choose_mla_form(model, target, request.build))
      made.notes.push_back(std::move(*note));
  MOEC_ASSIGN(made.cuts, resolve_build(model, target, request.cuts, request.build));
  MOEC_ASSIGN(made.plan,
              plan_model(std::move(model), std::move(weights), std::move(request.build)));
  return made;
}

}  // namespace moec
