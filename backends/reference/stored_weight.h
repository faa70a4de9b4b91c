// Large weights that stay as they are stored, in their files or in the slot of an expert.
// Convolutions and matrix products take them as operands and widen them part by part; the Tensor of
// such an operand has a type and no elements.
#pragma once

#include <variant>

#include "backends/weights/views/half_products.h"
#include "backends/weights/views/held_view.h"
#include "backends/weights/views/mapped_values.h"

namespace moec {

// A weight in the slot of an expert.
struct HeldValues {
  const HeldView* view = nullptr;
  const HeldBytes* bytes = nullptr;
  Status* failure = nullptr;  // becomes the first error of decoding
};

class StoredWeight {
 public:
  // With `rounds`, each element is rounded to f16.
  StoredWeight(MappedValues values, bool rounds) : values_(std::move(values)), rounds_(rounds) {}
  StoredWeight(HeldValues values, bool rounds) : values_(values), rounds_(rounds) {}

  // Null unless the weight stays in its file. Its elements are read under a MappedRead.
  const MappedValues* mapped() const { return std::get_if<MappedValues>(&values_); }

  // All elements as f32, if that is how they are stored; else null.
  const float* whole() const;
  // The elements as they are stored, and what sums products of them; both null where they must be
  // widened.
  const std::byte* data() const;
  const HalfProducts* halves() const;
  // Converts elements begin … begin + count - 1.
  void widen(int64_t begin, int64_t count, float* to) const;

 private:
  DType dtype() const;

  std::variant<MappedValues, HeldValues> values_;
  bool rounds_ = false;
};

}  // namespace moec
