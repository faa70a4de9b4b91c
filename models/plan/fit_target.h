// Derives build options that the user leaves open from a target's limits.
#pragma once

#include <optional>

#include "ir/model/plan.h"
#include "ir/target/target.h"

namespace moec {

inline constexpr int64_t kMostPages = 256;  // of a cache

// `wanted`, or none for a model that keeps no cache.
CacheForm cache_form(const ModelConfig& model, CacheForm wanted);

// Sets, from the model's sizes and target.limits:
//   head_slices   where it is 0: the fewest slices of the head whose rows are at most as many as
//   the
//                 target takes channels
//   cache         cache_form()
//   cache_pages   with cache blend: the fewest pages of equal size that have at most as many rows
//   as
//                 the target takes along an axis. With append the cache has one page, because its
//                 rows and the new rows form one axis of the keys.
// Error plan.context: no number of pages up to kMostPages divides the context that way.
Status fit_to_target(const ModelConfig& model, const Target& target, BuildOptions& build);

// Changes build.mla of latent attention from latent, which has the smaller cache, to expanded where
// only that fits the target. In the latent form each head's query has as many channels as the
// latent; they are one tensor, and target.limits.channels bounds it. Returns a note plan.mla_form
// if it changes the form.
std::optional<Diagnostic> choose_mla_form(const ModelConfig& model, const Target& target,
                                          BuildOptions& build);

}  // namespace moec
