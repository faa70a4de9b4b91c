// An operand of a convolution or a matrix product: in memory, or a weight that stays as it is
// stored.
#pragma once

#include <optional>

#include "backends/reference/eval.h"

namespace moec {

// One stored operand at a time.
class Operand {
 public:
  Operand(const Call& call, size_t index)
      : stored_(call.stored.empty() ? nullptr : call.stored[index]) {
    if (stored_ && stored_->mapped()) read_.emplace(*stored_->mapped());
    whole_ = stored_ ? stored_->whole() : call[index].data.data();
  }

  // All elements; null where they must be widened.
  const float* whole() const { return whole_; }
  // For products of its halves with a vector; null where they must be widened.
  const HalfProducts* halves() const { return stored_->halves(); }
  const std::byte* half_at(int64_t element) const { return stored_->data() + 2 * element; }
  // Elements begin … begin + count - 1 as f32.
  void widen(int64_t begin, int64_t count, float* to) const { stored_->widen(begin, count, to); }

 private:
  const float* whole_ = nullptr;
  const StoredWeight* stored_ = nullptr;
  std::optional<MappedRead> read_;
};

}  // namespace moec
