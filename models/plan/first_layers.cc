#include "models/plan/first_layers.h"

#include <fmt/format.h>

#include <set>

#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {

Status keep_first_layers(ModelConfig& model, WeightTable& weights, int64_t count) {
  const auto layers = std::ssize(model.layers);
  if (count < 1 || count > layers)
    return fail("model.layers_kept",
                fmt::format("{} layers were requested, but the model has {}", count, layers),
                fmt::format("choose 1 to {}", layers));
  const std::vector<NeededTensor> before = needed_tensors(model);
  model.layers.resize(static_cast<size_t>(count));
  model.stored.left_out_layers += layers - count;
  // Compares tensor names, so that a tensor that remaining layers share is kept.
  std::set<std::string> kept;
  for (NeededTensor& tensor : needed_tensors(model)) kept.insert(std::move(tensor.name));
  for (const NeededTensor& tensor : before) {
    if (kept.contains(tensor.name)) continue;
    // This loop precedes the removal from `derived`, because stored_tensors() reads `derived`.
    for (const StoredTensor& stored : stored_tensors(weights, model.stored, tensor))
      weights.tensors.erase(stored.tensor.name);
    weights.derived.erase(tensor.name);
  }
  return {};
}

}  // namespace moec
