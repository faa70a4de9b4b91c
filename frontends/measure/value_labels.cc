#include "frontends/measure/value_labels.h"

#include <algorithm>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

std::optional<LayerLabel> layer_label(const manifest::Shard& shard, std::string_view label) {
  const auto& layers = shard.moe_layers;
  if (layers.empty()) return std::nullopt;
  // Only shards of whole layers have a layer number in their labels.
  if (!holds_whole_layers(shard.kind)) return LayerLabel{layers.front(), label};
  if (!take_prefix(label, "L")) return std::nullopt;
  const auto layer = take_number<int64_t>(label);
  if (!layer || !take_prefix(label, ".")) return std::nullopt;
  // The label is only text; a number that is not an MoE layer of the shard belongs to another
  // value.
  if (std::find(layers.begin(), layers.end(), *layer) == layers.end()) return std::nullopt;
  return LayerLabel{*layer, label};
}

std::optional<ExpertLabel> expert_label(std::string_view name) {
  if (!take_prefix(name, "experts.")) return std::nullopt;
  const auto expert = take_number<int64_t>(name);
  if (!expert || !take_prefix(name, ".")) return std::nullopt;
  return ExpertLabel{*expert, name};
}

}  // namespace moec
