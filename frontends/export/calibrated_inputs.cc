#include "frontends/export/calibrated_inputs.h"

#include <map>

#include "backends/calibration/checkpoint_identity.h"
#include "frontends/export/weight_values.h"
#include "ir/analysis/find_experts.h"
#include "models/build/weight_uses.h"

namespace moec {
namespace {

tl::unexpected<Diagnostics> no_use(std::string cause, std::string next) {
  return fail("calibrate.no_use", std::move(cause), std::move(next));
}

// A matrix as CalibrationStats knows it.
struct Matrix {
  int64_t layer = -1;
  std::string role;
  int64_t expert = -1;
};

// The encoded weights of a shard by the text of their view.
std::map<std::string, Matrix> encoded_matrices(const Plan& plan, size_t index,
                                               const CompiledShard& compiled) {
  const std::map<std::string, WeightUse> uses = weight_uses(plan, index);
  const size_t layers = moe_layers_of(plan.model, plan.shards[index]).size();
  std::map<std::string, Matrix> matrices;
  for (const Shard& shard : compiled.widths) {
    const IdMap<OpId, OpRole> roles = find_experts(shard, plan.model.moe.experts, layers);
    for (OpId id : op_ids(shard)) {
      const auto* weight = std::get_if<Weight>(&shard.ops[id].data);
      if (!weight || is_plain(weight->encoding) || is_copied(weight->encoding)) continue;
      const auto use = uses.find(first_tensor(weight->view));
      if (use == uses.end()) continue;
      // A tensor that holds all experts is sliced; the graph tells which one.
      const WeightShare& share = roles[id].share;
      const bool sliced = use->second.expert < 0 && share.role == WeightRole::expert;
      matrices[to_string(weight->view)] = {use->second.layer, use->second.role,
                                           sliced ? share.first : use->second.expert};
    }
  }
  return matrices;
}

}  // namespace

Result<std::shared_ptr<const CalibrationStats>> open_calibration(const std::string& folder,
                                                                 const Plan& plan,
                                                                 const PassOptions& passes,
                                                                 const std::string& config_file) {
  if (folder.empty()) return nullptr;
  if (plan.build.weights.all_float())
    return no_use("a calibration chooses codes, but all weights are exported as floats",
                  "give --weights, or leave out --calibration");
  if (plan.weight_seed)
    return no_use("a calibration is of a checkpoint, but the weights are random",
                  "leave out --seeded-weights or --calibration");
  if (passes.experts == ExpertForm::bank)
    return no_use("each row of a bank of experts has the inputs of its own expert",
                  "leave out --experts bank or --calibration");
  MOEC_ASSIGN(CalibrationStats stats, CalibrationStats::open(folder));
  MOEC_ASSIGN(const std::string identity, checkpoint_identity(config_file, plan.weights));
  MOEC_TRY(stats.check_checkpoint(identity));
  return std::make_shared<const CalibrationStats>(std::move(stats));
}

decltype(EmitOptions::inputs_of) inputs_of_shard(const CalibrationStats& stats, const Plan& plan,
                                                 size_t index, const CompiledShard& compiled) {
  return [&stats, matrices = encoded_matrices(plan, index, compiled)](
             const WeightView& view, const Type& type) -> Result<std::optional<WeightInputs>> {
    const auto found = matrices.find(to_string(view));
    if (found == matrices.end()) return std::nullopt;
    const auto& [layer, role, expert] = found->second;
    if (!stats.has(layer, role, expert)) return std::nullopt;
    MOEC_ASSIGN(Hessian hessian, stats.find(layer, role, expert));
    MOEC_TRY(check_hessian(hessian, type.dims.at(1)));
    WeightInputs inputs;
    inputs.hessians.push_back(std::move(hessian));
    return inputs;
  };
}

}  // namespace moec
