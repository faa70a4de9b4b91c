#include "backends/runtime/session/masked_routers.h"

#include <fmt/format.h>

#include "ir/analysis/router_choice.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

std::string input_name(int64_t layer) { return "expert_ceiling." + std::to_string(layer); }

// Returns the slots that tokens can choose: the unmasked experts and all null slots, which follow
// the experts.
std::vector<int64_t> slots_left(const ExpertSets& mask, int64_t layer, int64_t experts,
                                int64_t slots) {
  std::vector<int64_t> left;
  for (int64_t slot = 0; slot < slots; ++slot)
    if (slot >= experts || mask.has(layer, slot)) left.push_back(slot);
  return left;
}

}  // namespace

// In a shard of several layers, each label begins with the scope of its layer.
std::optional<int64_t> routed_layer(const manifest::Shard& shard, std::string_view label) {
  if (!shard.routing || !label.ends_with(kRoutingWeights)) return std::nullopt;
  const auto prefix = label.substr(0, label.size() - std::string_view(kRoutingWeights).size());
  for (const int64_t layer : shard.moe_layers) {
    const std::string scope =
        holds_whole_layers(shard.kind) ? fmt::format("L{:02}", layer) : std::string();
    if (prefix == scope || (!scope.empty() && (prefix == scope + "." || prefix == scope + "_")))
      return layer;
  }
  return std::nullopt;
}

Result<Shard> with_ceiling_inputs(const Shard& body, const manifest::Shard& shard) {
  MOEC_ASSIGN(const std::vector<RouterChoice> routers, find_choices(body, shard.moe_layers.size()));
  // find_choices() returns exactly one router per MoE layer, in execution order, which is the
  // order of `moe_layers`.
  auto layer = shard.moe_layers.begin();
  return with_ceilings(body, routers, [&](Builder& b, const RouterChoice& router) {
    return b.input(input_name(*layer++), ceiling_type(body, router));
  });
}

void add_ceilings(std::span<const NamedType> inputs, const manifest::Shard& shard,
                  const ExpertSets& mask, Precision precision, NamedTensors& tensors) {
  for (const auto& [name, type] : inputs)
    for (const int64_t layer : shard.moe_layers) {
      if (name != input_name(layer)) continue;
      const DType dtype = precision == Precision::f16 ? DType::f16 : type.dtype;
      const int64_t slots = type.elements();
      const std::vector<double> values =
          choice_ceilings(dtype, slots, slots_left(mask, layer, shard.routing->experts, slots));
      tensors[name] = {type, {values.begin(), values.end()}};
    }
}

}  // namespace moec
