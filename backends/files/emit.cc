#include "backends/files/emit.h"

namespace moec {

uint64_t EmitReport::overflows() const {
  uint64_t total = 0;
  for (const EmittedTensor& tensor : tensors) total += tensor.overflows;
  return total;
}

}  // namespace moec
