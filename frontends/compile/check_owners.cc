#include "frontends/compile/check_owners.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

#include "ir/analysis/find_experts.h"
#include "ir/base/bounded_diagnostics.h"

namespace moec {
namespace {

using Uses = std::map<std::string, WeightUse>;

// Prefix of the roles "expert_…" and "experts_…", the matrices and biases of routed experts
// (models/families/family_vocabulary.cc).
constexpr std::string_view kOfExperts = "expert";

// Returns true if the view reads a tensor of routed experts; absent if the view reads no checkpoint
// tensor, such as the zeros of an expert's other slices.
std::optional<bool> is_read_from_experts(const WeightView& view, const Uses& uses) {
  std::optional<bool> found;
  for_each_tensor(view, [&](const TensorSource& tensor, const Type&) {
    const auto use = uses.find(tensor.name);
    const bool of_experts = use != uses.end() && use->second.tensor.role.starts_with(kOfExperts);
    found = found.value_or(false) || of_experts;
  });
  return found;
}

}  // namespace

Status check_owners(const Plan& plan, size_t index, const Uses& uses, const Shard& placed) {
  const std::vector<int64_t> layers = moe_layers_of(plan.model, plan.shards[index]);
  // Seeded weights read no tensors, so there is nothing to compare. Without MoE layers, no weight
  // belongs to an expert.
  if (layers.empty() || plan.weight_seed) return {};
  const auto roles = find_experts(placed, plan.model.moe.experts, layers.size());
  BoundedDiagnostics findings;
  for (OpId id : op_ids(placed)) {
    const auto* weight = std::get_if<Weight>(&placed.ops[id].data);
    // find_experts() assigns roles only to live ops.
    if (!weight || !roles[id].live) continue;
    const std::optional<bool> wanted = is_read_from_experts(weight->view, uses);
    const WeightRole role = roles[id].share.role;
    if (!wanted || (role == WeightRole::expert) == *wanted) continue;
    findings.add({Severity::error,
                  "compile.owner",
                  fmt::format("the weight is read from {}, but the graph uses it as {}",
                              *wanted ? "experts" : "non-expert tensors", enum_name(role)),
                  "report this model and these options as a bug in moec",
                  {.shard = placed.name, .op = placed.values[placed.ops[id].results[0]].name}});
  }
  return findings.count() > 0 ? Status(fail(findings.take())) : Status();
}

}  // namespace moec
