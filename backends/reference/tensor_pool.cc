#include "backends/reference/tensor_pool.h"

#include <algorithm>
#include <utility>

namespace moec {
namespace {

constexpr size_t kPooledTensors = 64;
constexpr size_t kPooledElements = size_t{16} << 10;  // 64 KiB

std::vector<Tensor>& free_tensors() {
  thread_local std::vector<Tensor> tensors;
  return tensors;
}

}  // namespace

Tensor make_tensor(const Type& type) {
  const auto elements = static_cast<size_t>(type.elements());
  std::vector<Tensor>& free = free_tensors();
  for (size_t i = free.size(); elements <= kPooledElements && i-- > 0;) {
    if (free[i].data.size() != elements) continue;
    std::swap(free[i], free.back());
    Tensor tensor = std::move(free.back());
    free.pop_back();
    tensor.type = type;
    return tensor;
  }
  return {type, std::vector<float>(elements)};
}

Tensor make_zeros(const Type& type) {
  Tensor tensor = make_tensor(type);
  std::fill(tensor.data.begin(), tensor.data.end(), 0.0f);
  return tensor;
}

void recycle(Tensor&& tensor) {
  std::vector<Tensor>& free = free_tensors();
  const bool fits = !tensor.data.empty() && tensor.data.size() <= kPooledElements;
  if (fits && tensor.halves.empty() && free.size() < kPooledTensors)
    free.push_back(std::move(tensor));
  tensor = {};
}

}  // namespace moec
