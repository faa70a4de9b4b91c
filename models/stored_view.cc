#include "models/stored_view.h"

#include "ir/invariant.h"

namespace moec {
namespace {

bool is_coded(const StoredWeights& stored, const Type& type) {
  return type.dtype == DType::f8_e4m3 && stored.coding == WeightCoding::fp8_blocks &&
         type.dims.size() == stored.block.size();
}

std::string factors_of(const std::string& name) { return name + "_scale_inv"; }

}  // namespace

std::optional<NeededTensor> needed_factors(const WeightTable& weights, const StoredWeights& stored,
                                           const NeededTensor& tensor) {
  const TensorRange* range = weights.find(tensor.name);
  if (range == nullptr || !is_coded(stored, range->type)) return std::nullopt;
  NeededTensor factors{tensor.role + " factors", factors_of(tensor.name), range->type.dims};
  for (size_t axis = 0; axis < factors.dims.size(); ++axis)
    factors.dims[axis] = (factors.dims[axis] - 1) / stored.block[axis] + 1;
  return factors;
}

WeightView stored_view(const WeightTable& weights, const StoredWeights& stored, std::string name) {
  const TensorRange* range = weights.find(name);
  MOEC_CHECK(range != nullptr, "the plan has no tensor {}", name);
  WeightView view = tensor_view(name, range->type);
  if (!is_coded(stored, range->type)) return view;
  const TensorRange* factors = weights.find(factors_of(name));
  MOEC_CHECK(factors != nullptr, "the plan has no factors of the tensor {}", name);
  return then(std::move(view),
              DequantStep{stored.block, {tensor_view(factors_of(name), factors->type)}});
}

}  // namespace moec
