// Parses the labels of inner values that probes receive while a shard runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/manifest/manifest.h"

namespace moec {

// A label without the prefix of its layer, such as "routing_weights".
struct LayerLabel {
  int64_t layer = 0;
  std::string_view name;
};

// Returns the MoE layer of a value and the rest of its label. In a shard of several layers, labels
// have a layer prefix such as "L05.". Absent if the value does not belong to an MoE layer of the
// shard.
std::optional<LayerLabel> layer_label(const manifest::Shard& shard, std::string_view label);

// Label of a value of one expert: "experts.3.out" is the value "out" of expert 3
// (passes/unroll_experts.cc sets the labels).
struct ExpertLabel {
  int64_t expert = 0;
  std::string_view name;
};

// Parses the name of a LayerLabel. Absent if the value does not belong to an expert.
std::optional<ExpertLabel> expert_label(std::string_view name);

}  // namespace moec
