#include "ir/plan/model_config.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

static void substitute(std::string& text, std::string_view hole, int64_t number) {
  if (number < 0) return;
  const std::string digits = std::to_string(number);
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
  return std::all_of(layers.begin(), layers.end(),
                     [](const LayerConfig& layer) { return layer.ahead == 0; });
}

ModelConfig::Memory ModelConfig::memory_of(const LayerConfig& layer) const {
  if (layer.mixer != MixerKind::attention)
    return {recurrent->history(), recurrent->channels, recurrent->state()};
  if (attention.convolved)
    return {attention.convolved->history(), attention.history_channels(), {}};
  return {};
}

}  // namespace moec
