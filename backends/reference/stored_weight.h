// Large weights in their stored form, in their files or in expert slots. Convolutions and matrix
// products use them as operands and widen them part by part. The Tensor of such an operand has a
// type but no elements.
#pragma once

#include <optional>
#include <span>
#include <variant>

#include "backends/weights/views/half_products.h"
#include "backends/weights/views/mapped_values.h"
#include "backends/weights/views/mapped_view.h"

namespace moec {

// With fewer elements, a weight is faster as f32: loaded from its file, or decoded in its slot. The
// limit is the same for both, so that both give the same bits.
inline constexpr int64_t kStoredElements = int64_t{16} << 10;

// A weight in the slot of an expert.
struct HeldValues {
  const HeldView* view = nullptr;
  const HeldBytes* bytes = nullptr;
  Status* failure = nullptr;  // receives the first decoding error
};

// Transformations that apply when a stored weight is read.
struct StoredForm {
  bool rounds = false;     // each element is rounded to f16
  bool is_turned = false;  // a product uses the transpose of the stored matrix
};

class StoredWeight {
 public:
  using Values = std::variant<MappedValues, MappedView, HeldValues>;

  StoredWeight(Values values, StoredForm form) : values_(std::move(values)), form_(form) {}

  bool is_turned() const { return form_.is_turned; }
  // Returns the weight's byte range in its mapped file, which must be read under a MappedRead;
  // nullopt for a weight in a slot.
  std::optional<MappedRange> range() const;
  // Releases the memory of a mapped weight to the operating system.
  void release() const;

  // Returns all elements if they can be read in place as f32, or null.
  const float* whole() const;
  // Returns the stored elements, or null if they must be decoded.
  const std::byte* data() const;
  // Returns kernels for products that read the 16-bit elements in place, or null if the elements
  // must be widened.
  const HalfProducts* halves() const;
  // Converts elements [begin, begin + count). Thread-safe.
  void widen(int64_t begin, int64_t count, float* to) const;

  // Returns how dot() needs the activations of a token, if the weight consists of rows of `columns`
  // codes that kernels multiply without decoding; nullopt otherwise.
  std::optional<Arrangement> arrangement(int64_t columns, ActivationFormat format) const;
  // out[r] = row (first + r) · token. Thread-safe.
  void dot(const RowRange& rows, const CodedToken& token, float* out) const;
  void dot(const RowRange& rows, const CodedTokens& tokens, TokenProducts out) const;

 private:
  DType dtype() const;
  const CodedRows* coded_rows(int64_t columns, ActivationFormat format) const;
  const HeldBytes& held() const;

  Values values_;
  StoredForm form_;
};

}  // namespace moec
