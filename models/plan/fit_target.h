// Derives build options that the user left unset from a target's limits.
#pragma once

#include <optional>

#include "ir/model/plan.h"
#include "ir/target/target.h"

namespace moec {

inline constexpr int64_t kMaxPages = 256;  // per cache

// Returns `wanted`, or none for a model without a cache.
CacheForm cache_form(const ModelConfig& model, CacheForm wanted);

// Sets, from the model's sizes and target.limits:
//   head_slices   if it is 0: the smallest number of head slices with at most as many rows as the
//                 target's limit of channels
//   cache         cache_form()
//   cache_pages   with cache blend: the smallest number of equal pages with at most as many rows as
//                 the target's limit of an axis. With append the cache has one page, because its
//                 rows and the new rows form one axis of the keys.
// Error plan.context: no number of pages up to kMaxPages meets that limit.
Status fit_to_target(const ModelConfig& model, const Target& target, BuildOptions& build);

// Changes build.mla from latent, which has the smaller cache, to expanded if only that fits the
// target. In form latent, the queries of all heads are one tensor with as many channels per head as
// the latent; target.limits.channels bounds its channels. Returns a note plan.mla_form if it
// changes the form.
std::optional<Diagnostic> choose_mla_form(const ModelConfig& model, const Target& target,
                                          BuildOptions& build);

}  // namespace moec
