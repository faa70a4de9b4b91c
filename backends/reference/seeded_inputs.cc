#include <algorithm>
#include <cmath>

#include "backends/reference/reference.h"
#include "backends/reference/rounding.h"
#include "ir/graph/port_names.h"
#include "ir/model/plan.h"

namespace moec {
namespace {

// First element of an input's random stream. Streams are so far apart that the inputs of a test
// share no elements.
uint64_t stream_of(uint64_t seed, size_t input) {
  return (seed + 1) * 0x9e3779b97f4a7c15u + (static_cast<uint64_t>(input) << 40);
}

// A causal mask: the last `tokens` keys are the tokens of the step, and token t sees all keys up to
// its own.
float mask_element(const Type& type, size_t index) {
  const Dims& dims = type.dims;
  const int64_t keys = dims.back(), tokens = dims[dims.size() - 2];
  const auto key = static_cast<int64_t>(index) % keys;
  const int64_t token = static_cast<int64_t>(index) / keys % tokens;
  return key <= keys - tokens + token ? 0.0f : static_cast<float>(masked_score(type.dtype));
}

// One-hot: token t goes to row first + t; `first` depends on the stream.
float write_mask_element(const Dims& dims, size_t index, uint64_t stream) {
  const int64_t tokens = dims.back(), rows = dims[dims.size() - 2];
  const auto token = static_cast<int64_t>(index) % tokens;
  const int64_t row = static_cast<int64_t>(index) / tokens % rows;
  const auto first = static_cast<int64_t>(
      (stream >> 33) % static_cast<uint64_t>(std::max<int64_t>(1, rows - tokens + 1)));
  return row == first + token ? 1.0f : 0.0f;
}

// The names of masks and routing weights select values that a model could receive: a router
// returns no negative weight.
float element(const Type& type, std::string_view name, uint64_t stream, size_t index) {
  const float random = seeded_element(stream, index);
  if (type.dtype == DType::boolean) return random < 0 ? 0.0f : 1.0f;
  // Integers 0 to 7, because random is in [-1, 1).
  if (!is_float(type.dtype)) return std::floor((random + 1) * 4);
  if (type.rank() >= 2 && name.ends_with("write_mask"))
    return write_mask_element(type.dims, index, stream);
  if (name == kTokenMaskPort) return 1.0f;
  if (type.rank() >= 2 && name.ends_with("mask")) return mask_element(type, index);
  if (name.find("routing") != std::string_view::npos) return std::max(random, 0.0f);
  return random;
}

}  // namespace

std::vector<Tensor> seeded_inputs(const Shard& shard, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < shard.inputs.size(); ++i) {
    const Value& value = shard.values[shard.inputs[i]];
    Tensor tensor{value.type, std::vector<float>(static_cast<size_t>(value.type.elements()))};
    for (size_t e = 0; e < tensor.data.size(); ++e)
      tensor.data[e] = element(value.type, value.name, stream_of(seed, i), e);
    round_elements(tensor, Precision::f32);
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

}  // namespace moec
