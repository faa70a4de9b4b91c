#include "frontends/jobs/prune/cut_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/at.h"
#include "ir/base/invariant.h"
#include "ir/base/parse_number.h"
#include "ir/experts/expert_runs.h"
#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {
namespace {

constexpr std::string_view kExpert = "{e}";

tl::unexpected<Diagnostics> inseparable(const std::string& name, std::string cause) {
  return fail("prune.tensor", std::move(cause),
              "use a checkpoint of the text model, with plain weights", {.tensor = name});
}

// The axis whose size depends on the number of experts, and its entries per expert. Empty if the
// shapes do not differ in one such axis.
struct ExpertAxis {
  size_t axis = 0;
  int64_t each = 1;
};
std::optional<ExpertAxis> expert_axis(const Dims& before, const Dims& after, int64_t experts,
                                      int64_t kept) {
  if (before.size() != after.size()) return std::nullopt;
  const auto [first, second] = std::mismatch(before.begin(), before.end(), after.begin());
  if (!std::equal(first + 1, before.end(), second + 1)) return std::nullopt;
  const auto axis = static_cast<size_t>(first - before.begin());
  // A router can have slots after its experts; they are kept.
  if (*first - *second == experts - kept) return ExpertAxis{axis, 1};
  const int64_t each = *first / experts;
  if (*first == each * experts && *second == each * kept) return ExpertAxis{axis, each};
  return std::nullopt;
}

}  // namespace

// Records the beginning of the names of an expert's tensors.
void TensorCuts::add_names(const ModelConfig& model, const std::string& role, int64_t layer) {
  const std::string& form = model.names.by_role.find(role)->second;
  const size_t at = form.find(kExpert);
  MOEC_CHECK(at != std::string::npos, "the names of role {} have no {}", role, kExpert);
  // The name of expert 0 begins like those of all experts of the layer.
  const std::string name = model.names(role, layer, 0);
  const size_t rest = form.size() - at - kExpert.size();
  heads_[name.substr(0, name.size() - rest - 1)] = layer;
}

void TensorCuts::add_stored(const ModelConfig& model, const std::string& name, const Axis& axis) {
  for (const std::string& part : stored_names(model.stored, name)) {
    axes_[part] = axis;
    // Parts of quantized weights list experts first, whatever the form of the decoded tensor.
    if (part != name) axes_[part].axis = 0;
  }
}

Result<TensorCuts> TensorCuts::plan(const ModelConfig& before, const ModelConfig& after,
                                    const ExpertSets& kept) {
  TensorCuts cuts;
  cuts.experts_ = before.moe.experts;
  cuts.count_ = after.moe.experts;
  cuts.kept_ = kept;
  const std::vector<NeededRole> old_roles = needed_roles(before), new_roles = needed_roles(after);
  // Both models have the same roles; only the numbers of experts differ.
  MOEC_CHECK(old_roles.size() == new_roles.size(), "{} roles become {}", old_roles.size(),
             new_roles.size());
  for (size_t i = 0; i < old_roles.size(); ++i) {
    const NeededRole& role = old_roles[i];
    if (role.experts > 0) {
      cuts.add_names(before, role.role, role.layer);
      continue;
    }
    if (role.dims == new_roles[i].dims) continue;
    const std::string name = before.names(role.role, role.layer);
    const auto found =
        expert_axis(role.dims, new_roles[i].dims, before.moe.experts, after.moe.experts);
    if (!found) return inseparable(name, fmt::format("{} has no axis of experts", role.role));
    cuts.add_stored(before, name,
                    {role.layer, found->axis, found->each, role.role.starts_with("expert")});
  }
  return cuts;
}

// Along axis 0, pieces copy runs of experts one after the other. Other axes need one joined view.
std::vector<TensorPiece> TensorCuts::pieces(const WeightView& view, const Axis& axis) const {
  const int64_t size = view.source_type.dims.at(static_cast<int64_t>(axis.axis));
  std::vector<ExpertRun> runs = runs_of(kept_.layers.at(axis.layer));
  for (ExpertRun& run : runs) run = {run.first * axis.each, run.count * axis.each};
  if (const int64_t end = experts_ * axis.each; size > end) runs.push_back({end, size - end});
  std::vector<WeightView> parts;
  for (const ExpertRun& run : runs)
    parts.push_back(then(view, SliceStep{static_cast<int64_t>(axis.axis), run.first, run.count}));
  if (axis.axis > 0 && parts.size() > 1)
    parts = {concat_view(static_cast<int64_t>(axis.axis), std::move(parts))};
  std::vector<TensorPiece> pieces;
  for (WeightView& part : parts) pieces.push_back({std::move(part), {}, {}, 1, {}});
  return pieces;
}

Result<CutResult> TensorCuts::cut(const std::string& name, const Type& type) const {
  const WeightView view = tensor_view(name, type);
  const TensorPiece whole{view, {}, {}, 1, {}};
  if (const auto found = axes_.find(name); found != axes_.end()) {
    const Axis& axis = found->second;
    Dims dims = type.dims;
    if (dims.size() <= axis.axis || at(dims, axis.axis) < experts_ * axis.each)
      return inseparable(
          name, fmt::format("the shape {} has no axis of {} experts", to_string(dims), experts_));
    at(dims, axis.axis) -= (experts_ - count_) * axis.each;
    return CutResult{NewTensor{name, {type.dtype, std::move(dims)}, pieces(view, axis)},
                     axis.experts};
  }
  // Of all beginnings, only the last one that is not after the name can begin it.
  auto head = heads_.upper_bound(name);
  const bool begins = head != heads_.begin() && name.starts_with((--head)->first);
  if (!begins) return CutResult{NewTensor{name, type, {whole}}, false};
  const std::string rest = name.substr(head->first.size());
  const size_t digits = std::min(rest.find('.'), rest.size());
  const std::optional<int64_t> expert = parse_whole(rest.substr(0, digits));
  // A tensor of all experts next to those of single experts.
  if (!expert)
    return inseparable(name,
                       "the tensor lies among the tensors of single experts, but belongs to "
                       "no expert");
  // Ernie's text and image experts share their numbering. Images have experts in more layers.
  if (*expert >= experts_)
    return inseparable(name, "the tensor belongs to an expert of another part of the model");
  const std::vector<int64_t>& kept = kept_.layers.at(head->second);
  const auto number = std::lower_bound(kept.begin(), kept.end(), *expert);
  if (number == kept.end() || *number != *expert) return CutResult{std::nullopt, true};
  return CutResult{
      NewTensor{fmt::format("{}{}{}", head->first, number - kept.begin(), rest.substr(digits)),
                type,
                {whole}},
      true};
}

}  // namespace moec
