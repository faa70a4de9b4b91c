#include "models/shards/weight_uses.h"

#include "ir/base/invariant.h"
#include "models/shards/shard_scope.h"

namespace moec {
namespace {

WeightGroup group_in_shard(const std::string& role) {
  const auto group = group_of_role(role);
  MOEC_CHECK(group, "role {} belongs to no group of weights", role);
  return *group == WeightGroup::embed ? WeightGroup::head : *group;
}

}  // namespace

std::map<std::string, WeightUse> weight_uses(const Plan& plan, size_t shard) {
  std::map<std::string, WeightUse> uses;
  const WeightSource stored = weights_of(plan);
  const auto record = [&](const WeightRequest& request) {
    WeightView view = stored(request);
    const WeightUse use{group_in_shard(request.role),
                        {request.layer, request.expert, request.role}};
    for_each_tensor(
        view, [&](const TensorSource& tensor, const Type&) { uses.try_emplace(tensor.name, use); });
    return view;
  };
  // Builds the body only to record its requests, which do not depend on the width.
  ShardScope scope(plan, plan.shards[shard], plan.build.tokens.front(), record);
  build_body(scope);
  return uses;
}

WeightForms weight_forms(const Plan& plan, size_t shard) {
  WeightForms forms;
  if (plan.build.weights.all_float()) return forms;
  // Lists only quantized tensors, because all other tensors stay float.
  for (const auto& [tensor, use] : weight_uses(plan, shard))
    if (WeightForm form = plan.build.weights.form_of(use.group, use.tensor); !is_float(form))
      forms.by_source.emplace(tensor, form);
  return forms;
}

}  // namespace moec
