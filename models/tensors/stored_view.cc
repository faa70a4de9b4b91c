#include "models/tensors/stored_view.h"

#include <algorithm>

#include "ir/base/invariant.h"
#include "models/tensors/matrix_coding.h"

namespace moec {
namespace {

// The tensors that a view reads, without duplicates.
std::vector<StoredTensor> sources_of(const WeightView& view, const std::string& role) {
  std::vector<StoredTensor> sources;
  for_each_tensor(view, [&](const TensorSource& tensor, const Type& type) {
    StoredTensor source{{role, tensor.name, type.dims}, type.dtype};
    if (std::find(sources.begin(), sources.end(), source) == sources.end())
      sources.push_back(std::move(source));
  });
  return sources;
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const WeightTable& weights, const StoredWeights& stored,
                                         const NeededTensor& tensor) {
  // The view of a derived tensor names the stored tensors from which it is computed.
  if (const WeightView* derived = weights.find_derived(tensor.name))
    return sources_of(*derived, tensor.role);
  if (const auto coding = matrix_coding(weights, stored); coding && coding->stores(tensor.name))
    if (auto parts = coding->parts(tensor); !parts.empty()) return parts;
  return {{tensor}};
}

std::vector<std::string> stored_names(const StoredWeights& stored, const std::string& name) {
  static const WeightTable kNone;
  std::vector<std::string> names = {name};
  if (const auto coding = matrix_coding(kNone, stored))
    for (std::string& part : coding->names(name)) names.push_back(std::move(part));
  return names;
}

WeightView stored_view(const WeightTable& weights, const StoredWeights& stored,
                       const std::string& name) {
  if (const WeightView* derived = weights.find_derived(name)) return *derived;
  if (const auto coding = matrix_coding(weights, stored); coding && coding->stores(name))
    return coding->view(name);
  const TensorRange* range = weights.find(name);
  MOEC_CHECK(range != nullptr, "the weight table has no tensor {}", name);
  return tensor_view(name, range->type);
}

}  // namespace moec
