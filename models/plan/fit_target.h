// What a target's limits ask of the shards' form where the user leaves it open.
#pragma once

#include "ir/plan/plan.h"
#include "ir/target/target.h"

namespace moec {

// Fills in what follows from the model's sizes and target.limits:
//   head_slices   where it is 0: the fewest slices of the head's rows that have no more channels
//                 than the target takes
//   cache         none where the model keeps none
//   cache_pages   with cache blend: the fewest pages of equal size whose rows are no longer than
//                 the target takes. With append the cache stays whole, for its rows and the new
//                 ones are one axis of the keys.
// Error: plan.context where no number of pages up to kMostPages divides the context so.
inline constexpr int64_t kMostPages = 256;

// The form that a model's shards have where `wanted` is asked for models that keep a cache.
CacheForm cache_form(const ModelConfig& model, CacheForm wanted);

Status fit_to_target(const ModelConfig& model, const Target& target, BuildOptions& build);

}  // namespace moec
