#include "models/shards/count_parameters.h"

#include "models/shards/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {

static bool is_routed_expert(const NeededTensor& tensor) {
  return tensor.role.starts_with("expert_") || tensor.role.starts_with("experts_");
}

static int64_t chosen_part(const ModelConfig& model, int64_t of_all_experts) {
  // Avoids a division by 0: `experts` is 0 in a model without experts.
  return of_all_experts == 0 ? 0 : of_all_experts * model.moe.routing.top_k / model.moe.experts;
}

// Adds a tensor's stored bytes to the counts by type. Returns the tensor's total bytes.
static int64_t count_bytes(const ModelConfig& model, const WeightTable& weights,
                           const NeededTensor& tensor, ParameterCounts& counts) {
  int64_t bytes = 0;
  for (const StoredTensor& part : stored_tensors(weights, model.stored, tensor)) {
    const Type& type = weights.find(part.tensor.name)->type;
    counts.bytes_by_dtype[std::string(dtype_name(type.dtype))] += type.bytes();
    bytes += type.bytes();
  }
  return bytes;
}

// Sums all experts before computing the chosen share, because the share of a single tensor need not
// be an integer.
ParameterCounts count_parameters(const ModelConfig& model, const WeightTable& weights) {
  ParameterCounts counts;
  int64_t expert_elements = 0, expert_bytes = 0;
  for (const NeededTensor& tensor : needed_tensors(model)) {
    const int64_t elements = Type{DType::f32, tensor.dims}.elements();
    counts.parameters += elements;
    const int64_t bytes = count_bytes(model, weights, tensor, counts);
    // A token reads one row of the embedding. If the head is tied, it also reads all rows.
    if (tensor.role == "embed") counts.active_bytes += bytes / model.vocab;
    if (is_routed_expert(tensor)) {
      expert_elements += elements;
      expert_bytes += bytes;
    } else if (tensor.role != "embed" || model.head.tied) {
      counts.active += elements;
      counts.active_bytes += bytes;
    }
  }
  counts.all_experts_bytes = counts.active_bytes + expert_bytes;
  counts.active += chosen_part(model, expert_elements);
  counts.active_bytes += chosen_part(model, expert_bytes);
  return counts;
}

int64_t ParameterCounts::bytes() const {
  int64_t all = 0;
  for (const auto& [dtype, bytes] : bytes_by_dtype) all += bytes;
  return all;
}

}  // namespace moec
