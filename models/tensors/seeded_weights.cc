#include "models/tensors/seeded_weights.h"

namespace moec {
namespace {

constexpr double kScale = 0.02;

// FNV-1a, 64 bits: unlike std::hash, it returns the same seed on every machine.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

WeightView noise(const std::string& name, const Type& type, uint64_t seed) {
  // The values depend on `seed` and `name` only, so all shards that read the tensor agree.
  WeightView view = seeded_view(seed ^ hash_name(name), {DType::f32, type.dims});
  return then(then(std::move(view), ScaleStep{kScale}), CastStep{type.dtype});
}

}  // namespace

WeightView seeded_weights(const WeightView& view, uint64_t seed) {
  WeightView seeded = view;
  if (const auto* tensor = std::get_if<TensorSource>(&view.source)) {
    seeded = noise(tensor->name, view.source_type, seed);
    // Keeps the steps of the view, so that the weight keeps its shape and type.
    for (const ViewStep& step : view.steps) seeded = then(std::move(seeded), step);
  } else if (auto* concat = std::get_if<ConcatSource>(&seeded.source)) {
    for (WeightView& part : concat->parts) part = seeded_weights(part, seed);
  }
  for (ViewStep& step : seeded.steps)
    for (WeightView* parameter : parameters_of(step)) *parameter = seeded_weights(*parameter, seed);
  return seeded;
}

Shard with_seeded_weights(Shard shard, uint64_t seed) {
  for (OpId id : op_ids(shard))
    if (auto* weight = std::get_if<Weight>(&shard.ops[id].data))
      weight->view = seeded_weights(weight->view, seed);
  return shard;
}

}  // namespace moec
