#include "backends/reference/tensor_pool.h"

#include <algorithm>
#include <deque>
#include <optional>
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

  std::optional<Tensor> take(size_t elements) {
    for (size_t i = free_.size(); i-- > 0;) {
      if (free_[i].data.size() != elements) continue;
      std::swap(free_[i], free_.back());
      Tensor tensor = std::move(free_.back());
      free_.pop_back();
      held_ -= elements;
      return tensor;
    }
    return std::nullopt;
  }

  // Frees the oldest tensors while the tensors exceed a limit.
  void keep(Tensor&& tensor) {
    const size_t elements = tensor.data.size();
    if (elements > elements_) return;
    while (free_.size() == tensors_ || held_ + elements > elements_) {
      held_ -= free_.front().data.size();
      free_.pop_front();
    }
    held_ += elements;
    free_.push_back(std::move(tensor));
  }

 private:
  size_t tensors_, elements_, held_ = 0;
  std::deque<Tensor> free_;
};

constexpr size_t kSmallElements = size_t{16} << 10;  // 64 KiB

FreeTensors& free_tensors(size_t elements) {
  thread_local FreeTensors small(64, 64 * kSmallElements), large(32, size_t{4} << 20);
  return elements <= kSmallElements ? small : large;
}

}  // namespace

Tensor make_tensor(const Type& type) {
  const auto elements = static_cast<size_t>(type.elements());
  std::optional<Tensor> tensor = free_tensors(elements).take(elements);
  if (!tensor) return {type, std::vector<float>(elements)};
  tensor->type = type;
  return std::move(*tensor);
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
