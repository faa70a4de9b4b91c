#include "ir/model/model_config.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

static void substitute(std::string& text, std::string_view hole, int64_t number) {
  // A negative number keeps the hole. The result is then a pattern for all layers or experts.
  if (number < 0) return;
  const std::string digits = std::to_string(number);
  // The digits contain no hole, so the search can continue at the position of the digits.
  for (size_t at = text.find(hole); at != std::string::npos; at = text.find(hole, at))
    text.replace(at, hole.size(), digits);
}

std::string TensorNames::operator()(std::string_view role, int64_t layer, int64_t expert) const {
  auto found = by_role.find(role);
  MOEC_CHECK(found != by_role.end(), "no tensor name for role {}", role);
  std::string name = found->second;
  substitute(name, "{i}", layer);
  substitute(name, "{e}", expert);
  return name;
}

bool ModelConfig::keeps_cache() const {
  // If queries see later keys, new tokens change earlier results, which then cannot be reused.
  return std::all_of(layers.begin(), layers.end(),
                     [](const LayerConfig& layer) { return layer.ahead == 0; });
}

ModelConfig::Memory ModelConfig::memory_of(const LayerConfig& layer) const {
  if (!layer.mixes()) return {};
  if (is_recurrent(layer.mixer))
    return {recurrent->history(), recurrent->channels, recurrent->state()};
  const AttentionConfig& own = attention_of(layer);
  if (own.convolved) return {own.convolved->history(), own.history_channels(), {}};
  return {};
}

std::vector<AttentionConfig> ModelConfig::kinds_of_attention() const {
  std::vector<AttentionConfig> kinds = {attention};
  kinds.insert(kinds.end(), more_attention.begin(), more_attention.end());
  return kinds;
}

bool ModelConfig::rotates(const LayerConfig& layer) const {
  return !is_recurrent(layer.mixer) && layer.rotated &&
         attention_of(layer).rope.style != RopeStyle::none;
}

std::vector<RopeConfig> ModelConfig::rotations() const {
  std::vector<RopeConfig> all;
  for (const LayerConfig& layer : layers) {
    if (!rotates(layer)) continue;
    const RopeConfig& rope = attention_of(layer).rope;
    if (std::find(all.begin(), all.end(), rope) == all.end()) all.push_back(rope);
  }
  if (all.empty() && attention.rope.style != RopeStyle::none) all.push_back(attention.rope);
  return all;
}

int64_t ModelConfig::rotation_of(const LayerConfig& layer) const {
  const std::vector<RopeConfig> all = rotations();
  const auto found = std::find(all.begin(), all.end(), attention_of(layer).rope);
  MOEC_CHECK(found != all.end(), "the rotation of a layer is not one of the model's {}",
             all.size());
  return found - all.begin();
}

}  // namespace moec
