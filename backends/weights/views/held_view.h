// A weight view that is compiled once and reads bytes that are in memory, whatever they are stored
// as: floats, or codes of few bits with their scales and tables.
#pragma once

#include <memory>

#include "backends/weights/views/weight_pager.h"
#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

class ViewNode;

class HeldView {
 public:
  // All tensors of the view lie in one file. Errors: those of WeightReader::cost().
  static Result<HeldView> compile(const WeightView& view, const WeightTable& table);

  const Type& type() const;
  // The elements as they are stored, where they lie side by side as f32, f16 or bf16; else null.
  const std::byte* data(const HeldBytes& held) const;
  // Converts elements begin … begin + count - 1, in C order, to f32. `held` has all bytes of the
  // view. Error weights.bad_index: a code is outside its table.
  Status widen(const HeldBytes& held, int64_t begin, int64_t count, float* to) const;

 private:
  explicit HeldView(std::shared_ptr<const ViewNode> node) : node_(std::move(node)) {}

  std::shared_ptr<const ViewNode> node_;
};

}  // namespace moec
