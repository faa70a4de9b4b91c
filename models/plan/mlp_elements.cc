#include "models/plan/mlp_elements.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ir/base/at.h"
#include "models/shards/needed_tensors.h"

namespace moec {
namespace {

// Returns the roles of the last layer of the kind, because the first layer may also have roles that
// exist once per model.
std::vector<NeededRole> needed_by_a_layer(const ModelConfig& model, bool moe) {
  const auto last =
      std::find_if(model.layers.rbegin(), model.layers.rend(),
                   [&](const LayerConfig& layer) { return layer.feeds() && layer.moe == moe; });
  const int64_t number = std::distance(last, model.layers.rend()) - 1;
  std::vector<NeededRole> needed;
  if (number < 0) return needed;
  for (NeededRole& role : needed_roles(model))
    if (role.layer == number) needed.push_back(std::move(role));
  return needed;
}

// Each slice contains these weights in full size, which does not depend on the inner width.
bool is_repeated(std::string_view role) {
  return role.ends_with("down_bias") || role == "shared_sigmoid_gate";
}

void add(const NeededRole& needed, int64_t experts, MlpElements& elements) {
  (is_repeated(needed.role) ? elements.repeated : elements.sliced) += needed.elements() / experts;
}

}  // namespace

int64_t added_router_elements(const ModelConfig& model, const BuildOptions& build) {
  if (build.dtype != DType::f16 || build.wide_router || model.moe.experts == 0) return 0;
  const int64_t slots = model.moe.slots();
  if (model.moe.router_hidden > 0) return slots * (model.moe.router_hidden + slots);
  if (facts_of(model.norm.kind).centred) return slots * (model.hidden + slots);
  return slots * (2 * (model.hidden + (model.moe.router_map.bias ? 1 : 0)) + slots);
}

MoeElements moe_elements(const ModelConfig& model, const BuildOptions& build) {
  MoeElements elements;
  elements.expert.width = model.moe.expert_ff;
  elements.shared.width = model.moe.shared_ff;
  const int64_t size = build.wide_router ? 2 : 1;  // size of an f32 element in elements of the type
  for (const NeededRole& needed : needed_by_a_layer(model, true)) {
    // Counts a single expert, so add() divides the elements of all experts by their number.
    if (needed.role.starts_with("expert")) add(needed, model.moe.experts, elements.expert);
    if (needed.role.starts_with("shared_")) add(needed, 1, elements.shared);
    if (needed.role.starts_with("router_choice_bias"))  // f16 stores it as two halves
      elements.router += 2 * needed.dims.back();
    else if (needed.role.starts_with("router"))
      elements.router += size * needed.elements();
    if (needed.role.starts_with("ffn_"))
      elements.norm += (needed.role.starts_with("ffn_norm") ? size : 1) * needed.elements();
    if (needed.role.starts_with("latent_"))
      (needed.role == "latent_out_bias" ? elements.norm : elements.latent) += needed.elements();
  }
  elements.router += added_router_elements(model, build);
  return elements;
}

DenseElements dense_elements(const ModelConfig& model) {
  DenseElements elements;
  elements.mlp.width = model.mlp.ff;
  for (const NeededRole& needed : needed_by_a_layer(model, false)) {
    if (needed.role.starts_with("gate") || needed.role.starts_with("up") ||
        needed.role.starts_with("down"))
      add(needed, 1, elements.mlp);
    if (needed.role.starts_with("ffn_")) elements.norm += needed.elements();
  }
  return elements;
}

}  // namespace moec
