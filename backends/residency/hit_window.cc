#include "backends/residency/hit_window.h"

#include <utility>

#include "ir/base/at.h"

namespace moec {

double HitWindow::Hits::rate() const {
  return uses > 0 ? static_cast<double>(hits) / static_cast<double>(uses) : 0;
}

std::optional<DomainChange> HitWindow::note(const ChosenStep& step) {
  // A chunk begins with the first layer. Windows end only at the beginning of a chunk, so they
  // contain all layers of their tokens.
  if (!first_layer_) first_layer_ = step.layer;
  std::optional<DomainChange> change;
  if (step.layer == *first_layer_) {
    if (tokens_ >= kWindowTokens) change = end_window();
    tokens_ += step.tokens;
  }
  count(step);
  return change;
}

void HitWindow::count(const ChosenStep& step) {
  window_.uses += std::ssize(step.chosen);
  window_.hits += step.hits;
  LayerProfile& layer = layers_[step.layer];
  layer.layer = step.layer;
  layer.tokens += step.tokens;
  if (step.chosen.empty()) return;
  // `chosen` is ascending, so its last element has the largest id.
  const auto most = static_cast<size_t>(step.chosen.back().expert) + 1;
  if (layer.selections.size() < most) layer.selections.resize(most);
  for (const auto& [expert, tokens] : step.chosen) at(layer.selections, expert) += tokens;
}

std::optional<DomainChange> HitWindow::end_window() {
  std::optional<DomainChange> change;
  // Without earlier uses, rate() returns 0, which is not a measured rate.
  const bool has_before = before_.uses > 0;
  if (has_before && window_.rate() <= before_.rate() - kDomainDrop)
    change = DomainChange{begin_, before_.rate(), window_.rate()};
  if (!fresh_ && !change) {
    before_.uses += window_.uses;
    before_.hits += window_.hits;
  }
  // Restarts the reference, so that later windows are compared with windows of the new domain only.
  if (change) before_ = {};
  fresh_ = false;
  ended_.layers.clear();
  for (auto& [number, layer] : layers_) ended_.layers.push_back(std::move(layer));
  layers_.clear();
  window_ = {};
  begin_ += std::exchange(tokens_, 0);
  return change;
}

}  // namespace moec
