#include "models/build/count_parameters.h"

#include "models/build/needed_tensors.h"
#include "models/tensors/stored_view.h"

namespace moec {

static bool is_routed_expert(const NeededTensor& tensor) {
  return tensor.role.starts_with("expert_") || tensor.role.starts_with("experts_");
}

ParameterCounts count_parameters(const ModelConfig& model, const WeightTable& weights) {
  ParameterCounts counts;
  for (const NeededTensor& tensor : needed_tensors(model)) {
    const int64_t elements = Type{DType::f32, tensor.dims}.elements();
    counts.parameters += elements;
    for (const StoredTensor& part : stored_tensors(weights, model.stored, tensor)) {
      const Type& type = weights.find(part.tensor.name)->type;
      counts.bytes_by_dtype[std::string(dtype_name(type.dtype))] += type.bytes();
    }
    if (is_routed_expert(tensor))
      counts.active += elements * model.moe.routing.top_k / model.moe.experts;
    else if (tensor.role != "embed" || model.head.tied)
      counts.active += elements;
  }
  return counts;
}

}  // namespace moec
