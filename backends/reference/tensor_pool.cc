#include "backends/reference/tensor_pool.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace moec {
namespace {

// Tensors of a thread that wait for their next use. Small ones are separate, because a few large
// ones would otherwise take all of the room.
class FreeTensors {
 public:
  // Keeps at most `tensors` tensors, and `elements` elements in all.
  FreeTensors(size_t tensors, size_t elements) : tensors_(tensors), elements_(elements) {}

  // An empty tensor if none has as many elements.
  Tensor take(size_t elements) {
    const auto found = std::find(sizes_.rbegin(), sizes_.rend(), elements);
    if (found == sizes_.rend()) return {};
    const auto at = static_cast<size_t>(sizes_.rend() - found) - 1;
    Tensor tensor = std::move(free_[at]);
    remove(at);
    return tensor;
  }

  // Frees tensors in turn while they exceed a limit.
  void keep(Tensor&& tensor) {
    const size_t elements = tensor.data.size();
    if (elements > elements_) return;
    while (free_.size() == tensors_ || held_ + elements > elements_)
      remove(next_freed_++ % free_.size());
    held_ += elements;
    free_.push_back(std::move(tensor));
    sizes_.push_back(elements);
  }

 private:
  void remove(size_t at) {
    held_ -= sizes_[at];
    if (at + 1 < free_.size()) free_[at] = std::move(free_.back());
    sizes_[at] = sizes_.back();
    free_.pop_back();
    sizes_.pop_back();
  }

  size_t tensors_, elements_, held_ = 0, next_freed_ = 0;
  std::vector<Tensor> free_;
  std::vector<size_t> sizes_;  // of free_, adjacent in memory because take() searches them
};

constexpr size_t kSmallElements = size_t{16} << 10;  // 64 KiB

FreeTensors& free_tensors(size_t elements) {
  thread_local FreeTensors small(64, 64 * kSmallElements), large(32, size_t{4} << 20);
  return elements <= kSmallElements ? small : large;
}

}  // namespace

Tensor make_tensor(const Type& type) {
  const auto elements = static_cast<size_t>(type.elements());
  Tensor tensor = free_tensors(elements).take(elements);
  tensor.data.resize(elements);
  tensor.type = type;
  return tensor;
}

Tensor make_zeros(const Type& type) {
  Tensor tensor = make_tensor(type);
  std::fill(tensor.data.begin(), tensor.data.end(), 0.0f);
  return tensor;
}

void recycle(Tensor&& tensor) {
  if (!tensor.data.empty() && tensor.halves.empty())
    free_tensors(tensor.data.size()).keep(std::move(tensor));
  tensor = {};
}

}  // namespace moec
