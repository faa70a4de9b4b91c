// An operand of a convolution or a matrix product: in memory, or a weight that stays in its file.
#pragma once

#include <optional>

#include "backends/reference/eval.h"
#include "backends/weights/half_products.h"

namespace moec {

// One stored operand at a time.
class Operand {
 public:
  Operand(const Call& call, size_t index);

  // All elements; null where they must be widened.
  const float* whole() const { return whole_; }
  // For products of its halves with a vector; null where they must be widened.
  const HalfProducts* halves() const;
  const std::byte* half_at(int64_t element) const { return stored_->values.data() + 2 * element; }
  // Elements begin … begin + count - 1 as f32.
  void widen(int64_t begin, int64_t count, float* to) const;

 private:
  const float* whole_ = nullptr;
  const StoredWeight* stored_ = nullptr;
  std::optional<MappedRead> read_;
};

}  // namespace moec
