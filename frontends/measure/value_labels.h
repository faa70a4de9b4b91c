// Labels of the values inside a shard, which a probe sees while the shard runs.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/manifest/manifest.h"

namespace moec {

// A label without the prefix of its layer: "routing_weights".
struct LayerLabel {
  int64_t layer = 0;
  std::string_view name;
};

// The MoE layer that a value belongs to. In a shard of several layers, labels begin with that of
// the layer ("L05."). Returns nothing for a value of no MoE layer of the shard.
std::optional<LayerLabel> layer_label(const manifest::Shard& shard, std::string_view label);

// "experts.3.out" is the value "out" of expert 3 (passes/unroll_experts.cc names it).
struct ExpertLabel {
  int64_t expert = 0;
  std::string_view name;
};

// Parses the name of a LayerLabel. Returns nothing for a value outside of an expert.
std::optional<ExpertLabel> expert_label(std::string_view name);

}  // namespace moec
