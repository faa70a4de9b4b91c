// The routers in the graphs of shards. Masks of experts in shards that were emitted without one:
// the ceilings of their routers (ir/analysis/router_choice.h) are inputs, which a session fills.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "backends/manifest/manifest.h"
#include "backends/runtime/session/engine.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// The MoE layer of the shard whose routing weights have this label, if any.
std::optional<int64_t> routed_layer(const manifest::Shard& shard, std::string_view label);

// The body of a shard that routes, with an input of ceilings for the router of each of its layers.
// Errors: those of find_choices().
Result<Shard> with_ceiling_inputs(const Shard& body, const manifest::Shard& shard);

// Adds the values of those of the inputs that are ceilings. With Precision::f16 they are finite in
// f16.
void add_ceilings(std::span<const NamedType> inputs, const manifest::Shard& shard,
                  const ExpertSets& mask, Precision precision, NamedTensors& tensors);

}  // namespace moec
