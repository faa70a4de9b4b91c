#include "backends/files/emit.h"

#include "backends/files/data_layout.h"
#include "ir/base/invariant.h"

namespace moec {

uint64_t EmitReport::overflows() const {
  uint64_t total = 0;
  for (const EmittedTensor& tensor : tensors) total += tensor.overflows;
  return total;
}

Status check_layout(const DataLayout& layout, const WeightReader& weights, size_t tile_bytes) {
  for (const auto& entry : layout.entries()) {
    if (!entry.literal.empty()) continue;
    MOEC_ASSIGN(const ViewCost cost, weights.cost(entry.view, tile_bytes));
    MOEC_CHECK(cost.result_bytes == entry.bytes, "{} delivers {} bytes, its type has {}", entry.key,
               cost.result_bytes, entry.bytes);
  }
  return {};
}

}  // namespace moec
