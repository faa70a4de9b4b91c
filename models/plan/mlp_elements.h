// The numbers of weights in the feed-forward part of a layer, as far as cutting it depends on them.
#pragma once

#include <cstdint>

#include "ir/model/plan.h"

namespace moec {

// The weights of a gated MLP or of one expert. `sliced` are those that a slice of the intermediate
// width has its share of; `repeated` are in each slice: the bias of down and the gate of a shared
// expert.
struct MlpElements {
  int64_t width = 0, sliced = 0, repeated = 0;
  int64_t whole() const { return sliced + repeated; }
  int64_t of_width(int64_t columns) const {
    return width == 0 ? 0 : sliced / width * columns + repeated;
  }
};

// Of a layer with experts, in elements of the shards' type. `norm` is what each of its shards may
// repeat: the norm before the experts, the affine terms of the residual stream, and the bias behind
// a latent. `latent` is what each shard with experts repeats besides: the maps around the latent.
// `router` is the most that a router has in the type.
struct MoeElements {
  MlpElements expert;  // one of them
  MlpElements shared;  // with its gate
  int64_t norm = 0;
  int64_t latent = 0;
  int64_t router = 0;
};
// All 0 for a model without such layers.
MoeElements moe_elements(const ModelConfig& model, const BuildOptions& build);
// What a router has beyond the weights that the builders give it: in f16, unless it is wide, the
// pass lower_router adds a projection (passes/halves.h).
int64_t added_router_elements(const ModelConfig& model, const BuildOptions& build);

// Of a dense layer.
struct DenseElements {
  MlpElements mlp;
  int64_t norm = 0;
};
DenseElements dense_elements(const ModelConfig& model);

}  // namespace moec
