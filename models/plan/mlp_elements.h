// Counts the weights in a layer's feed-forward part, for cutting it.
#pragma once

#include <cstdint>

#include "ir/model/plan.h"

namespace moec {

// The weights of a gated MLP or of one expert. `sliced` weights are divided among slices of the
// intermediate width. Every slice contains the `repeated` weights: the bias of down and the gate of
// a shared expert.
struct MlpElements {
  int64_t width = 0, sliced = 0, repeated = 0;
  int64_t whole() const { return sliced + repeated; }
  int64_t of_width(int64_t columns) const {
    return width == 0 ? 0 : sliced / width * columns + repeated;
  }
};

// Weights of an MoE layer, in elements of the shards' type. `norm`: weights that each of its shards
// may repeat, which are the norm before the experts, the affine terms of the residual stream, and
// the bias after a latent. `latent`: the maps to and from the latent, which each shard with experts
// repeats as well. `router`: the maximum over routers.
struct MoeElements {
  MlpElements expert;  // one expert
  MlpElements shared;  // including its gate
  int64_t norm = 0;
  int64_t latent = 0;
  int64_t router = 0;
};
// All 0 for a model without MoE layers.
MoeElements moe_elements(const ModelConfig& model, const BuildOptions& build);
// Router weights that passes add to the weights of the builders. In f16, the pass lower_router adds
// a projection unless the router is wide (passes/halves.h).
int64_t added_router_elements(const ModelConfig& model, const BuildOptions& build);

// Weights of a dense layer.
struct DenseElements {
  MlpElements mlp;
  int64_t norm = 0;
};
DenseElements dense_elements(const ModelConfig& model);

}  // namespace moec
