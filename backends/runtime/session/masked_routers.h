// Applies expert masks to shards after export. Each router gets an input of ceilings
// (ir/analysis/router_choice.h), which the session fills.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "backends/manifest/manifest.h"
#include "backends/runtime/session/engine.h"
#include "ir/experts/expert_sets.h"

namespace moec {

// Returns the MoE layer of `shard` whose routing weights have this label; absent if the label is
// not one of routing weights.
std::optional<int64_t> routed_layer(const manifest::Shard& shard, std::string_view label);

// Returns the body of a shard with an additional input of ceilings per routed layer. Errors: those
// of find_choices().
Result<Shard> with_ceiling_inputs(const Shard& body, const manifest::Shard& shard);

// Adds a tensor to `tensors` for each of `inputs` that is a ceiling. With Precision::f16, its
// values are finite in f16.
void add_ceilings(std::span<const NamedType> inputs, const manifest::Shard& shard,
                  const ExpertSets& mask, Precision precision, NamedTensors& tensors);

}  // namespace moec
