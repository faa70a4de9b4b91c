#include "backends/files/block_digests.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

BlockDigests::BlockDigests(const Type& type, size_t axis, int64_t count)
    : blocks_(static_cast<size_t>(count)), run_(static_cast<uint64_t>(type.bytes())) {
  // With a single block, `axis` may be out of range: a scalar has no axes.
  if (count == 1) return;
  MOEC_CHECK(axis < type.dims.size() && type.dims[axis] % count == 0,
             "{} blocks of {} along axis {}", count, to_string(type), axis);
  // A block is not contiguous if axes precede `axis`: it has one run of `run_` bytes per index of
  // those axes. The runs of all blocks alternate in C order.
  for (size_t i = 0; i < axis; ++i) run_ /= static_cast<uint64_t>(type.dims[i]);
  run_ /= static_cast<uint64_t>(count);
}

void BlockDigests::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    Block& block = blocks_[done_ / run_ % blocks_.size()];
    const auto piece = bytes.first(std::min<uint64_t>(bytes.size(), run_ - done_ % run_));
    block.digest.update(piece);
    // The tail counts across pieces: a piece of zeros extends it, and any other byte restarts it.
    const auto last = std::find_if(piece.rbegin(), piece.rend(),
                                   [](std::byte byte) { return byte != std::byte{0}; });
    const auto zeros = static_cast<uint64_t>(last - piece.rbegin());
    block.zero_tail = zeros == piece.size() ? block.zero_tail + zeros : zeros;
    done_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

}  // namespace moec
