#include "models/tensors/matrix_coding.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

bool MatrixCoding::stores(const std::string& name) const {
  const std::vector<std::string> parts = names(name);
  return find(name) == nullptr &&
         std::any_of(parts.begin(), parts.end(),
                     [&](const std::string& part) { return find(part) != nullptr; });
}

WeightView MatrixCoding::tensor(const std::string& name) const {
  const TensorRange* range = find(name);
  MOEC_CHECK(range != nullptr, "the weight table has no tensor {}", name);
  return tensor_view(name, range->type);
}

const WeightView& MatrixCoding::derived(const std::string& name) const {
  const WeightView* view = weights_.find_derived(name);
  MOEC_CHECK(view != nullptr, "the weight table has no derived tensor {}", name);
  return *view;
}

Dims MatrixCoding::block_of(const Dims& matrix) const {
  Dims block = stored_.block;
  for (size_t axis = 0; axis < block.size(); ++axis)
    if (block[axis] == 0) block[axis] = matrix[axis];
  return block;
}

Dims MatrixCoding::factor_dims(const Dims& matrix) const {
  Dims dims = block_of(matrix);
  for (size_t axis = 0; axis < dims.size(); ++axis)
    // Rounds up. The usual (a + b - 1) / b could overflow.
    dims[axis] = (matrix[axis] - 1) / dims[axis] + 1;
  return dims;
}

std::unique_ptr<MatrixCoding> matrix_coding(const WeightTable& weights,
                                            const StoredWeights& stored) {
  for (auto* make : {float_coding, integer_coding, bitsandbytes_coding})
    if (auto coding = make(weights, stored)) return coding;
  return nullptr;
}

std::string sibling(const std::string& name, std::string_view part) {
  const std::string_view base = std::string_view(name).substr(0, name.size() - kWeight.size());
  return std::string(base).append(part);
}

NeededTensor tensor_part(const NeededTensor& tensor, std::string_view part, std::string name,
                         Dims dims) {
  return {fmt::format("{} {}", tensor.role, part), std::move(name), std::move(dims)};
}

}  // namespace moec
