// A weight view that is compiled once and then reads its elements from bytes in memory. The
// elements may be stored as floats, or as low-bit codes with scales or tables.
#pragma once

#include <memory>
#include <optional>

#include "backends/weights/views/coded_rows.h"
#include "backends/weights/views/weight_pager.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

class ViewNode;

class HeldView {
 public:
  // All tensors of the view must be in one file. Errors: those of WeightReader::cost().
  static Result<HeldView> compile(const WeightView& view, const WeightTable& table);

  const Type& type() const;
  // Returns true if the elements are rows of codes, which widen() decodes fast and without errors.
  bool is_coded() const { return rows_.has_value(); }
  // Returns the stored elements if they are contiguous f32, f16 or bf16 in `held`; null otherwise.
  const std::byte* data(const HeldBytes& held) const;
  // Converts elements [begin, begin + count), in C order, to f32. `held` must contain all bytes of
  // the view. Error: weights.bad_index (a code is outside its table).
  Status widen(const HeldBytes& held, int64_t begin, int64_t count, float* to) const;
  // Rows of codes with kernels that multiply them without decoding; null for all other views.
  const CodedRows* rows() const { return rows_ ? &*rows_ : nullptr; }

 private:
  explicit HeldView(std::shared_ptr<const ViewNode> node);

  std::shared_ptr<const ViewNode> node_;
  std::optional<CodedRows> rows_;  // absent if the node is not rows of codes
};

}  // namespace moec
