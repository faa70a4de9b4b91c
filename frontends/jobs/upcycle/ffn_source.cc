#include "frontends/jobs/upcycle/ffn_source.h"

#include <algorithm>
#include <array>

#include "ir/base/invariant.h"

namespace moec {

namespace {

void put_before(std::string_view prefix, WeightView& view) {
  if (auto* tensor = std::get_if<TensorSource>(&view.source)) tensor->name.insert(0, prefix);
  // Derived views refer to other tensors by name, so every name in them gets the prefix.
  if (auto* concat = std::get_if<ConcatSource>(&view.source))
    for (WeightView& part : concat->parts) put_before(prefix, part);
  for (ViewStep& step : view.steps)
    for (WeightView* parameter : parameters_of(step)) put_before(prefix, *parameter);
}

}  // namespace

void add_tensors(WeightTable& to, const WeightTable& from, const std::string& prefix) {
  // Files are appended, so indices of the added tensors move by this number.
  const auto first = static_cast<uint32_t>(to.files.size());
  to.files.insert(to.files.end(), from.files.begin(), from.files.end());
  for (const auto& [name, range] : from.tensors) {
    TensorRange moved = range;
    moved.file += first;
    to.tensors.emplace(prefix + name, std::move(moved));
  }
  // Derived entries refer to tensors of their table by name, so those names get the prefix, too.
  for (const auto& [name, view] : from.derived)
    put_before(prefix, to.derived.emplace(prefix + name, view).first->second);
}

MatrixPart FfnSource::matrix(const WeightTable& weights, const std::string& role,
                             int64_t layer) const {
  const std::string name = model.names(role, layer);
  std::optional<WeightView> view = weights.view(prefix + name);
  MOEC_CHECK(view, "the table lacks {}{}", prefix, name);
  MatrixPart part{std::move(*view), std::nullopt};
  // Adapters use the names of the checkpoint, without the prefix of the table.
  if (const auto adapter = adapters.find(name); adapter != adapters.end())
    part.low_rank = adapter->second;
  return part;
}

FfnParts FfnSource::parts(const WeightTable& weights, int64_t layer) const {
  FfnParts parts;
  parts.down = matrix(weights, "down", layer);
  // Models with a fused matrix store gate rows first, then up rows.
  if (model.names.has("gate_up")) {
    const MatrixPart both = matrix(weights, "gate_up", layer);
    parts.gate = rows_of(both, 0, model.mlp.ff);
    parts.up = rows_of(both, model.mlp.ff, model.mlp.ff);
    return parts;
  }
  if (model.mlp.gating.has_gate()) parts.gate = matrix(weights, "gate", layer);
  parts.up = matrix(weights, "up", layer);
  return parts;
}

bool is_ffn_role(std::string_view role) {
  constexpr std::array<std::string_view, 4> kRoles = {"gate", "up", "gate_up", "down"};
  return std::find(kRoles.begin(), kRoles.end(), role) != kRoles.end();
}

}  // namespace moec
