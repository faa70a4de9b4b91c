#include "frontends/jobs/upcycle/ffn_source.h"

#include <algorithm>
#include <array>

#include "ir/base/invariant.h"

namespace moec {

void add_tensors(WeightTable& to, const WeightTable& from, const std::string& prefix) {
  const auto first = static_cast<uint32_t>(to.files.size());
  to.files.insert(to.files.end(), from.files.begin(), from.files.end());
  for (const auto& [name, range] : from.tensors) {
    TensorRange moved = range;
    moved.file += first;
    to.tensors.emplace(prefix + name, std::move(moved));
  }
}

MatrixPart FfnSource::matrix(const WeightTable& weights, const std::string& role,
                             int64_t layer) const {
  const std::string name = model.names(role, layer);
  const TensorRange* found = weights.find(prefix + name);
  MOEC_CHECK(found != nullptr, "the table lacks {}{}", prefix, name);
  MatrixPart part{tensor_view(prefix + name, found->type), std::nullopt};
  if (const auto adapter = adapters.find(name); adapter != adapters.end())
    part.low_rank = adapter->second;
  return part;
}

FfnParts FfnSource::parts(const WeightTable& weights, int64_t layer) const {
  FfnParts parts;
  parts.down = matrix(weights, "down", layer);
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
