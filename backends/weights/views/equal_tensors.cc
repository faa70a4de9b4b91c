#include "backends/weights/views/equal_tensors.h"

#include <algorithm>
#include <vector>

#include "backends/weights/views/payload_file.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {

Result<bool> equal_tensors(const WeightTable& table, const TensorRange& a, const TensorRange& b) {
  MOEC_CHECK(a.type == b.type, "tensors of different types are compared");
  MOEC_ASSIGN(const PayloadFile first, PayloadFile::open(at(table.files, a.file)));
  MOEC_ASSIGN(const PayloadFile second, PayloadFile::open(at(table.files, b.file)));
  // Blocks bound the memory and allow an early end at the first difference.
  constexpr uint64_t kBlockBytes = uint64_t{1} << 20;
  std::vector<std::byte> ours(kBlockBytes), theirs(kBlockBytes);
  const auto size = static_cast<uint64_t>(a.type.bytes());
  for (uint64_t begin = 0; begin < size; begin += kBlockBytes) {
    const auto count = static_cast<size_t>(std::min(kBlockBytes, size - begin));
    MOEC_TRY(first.read(a.offset + begin, ours.data(), count));
    MOEC_TRY(second.read(b.offset + begin, theirs.data(), count));
    const auto end = ours.begin() + static_cast<std::ptrdiff_t>(count);
    if (!std::equal(ours.begin(), end, theirs.begin())) return false;
  }
  return true;
}

}  // namespace moec
