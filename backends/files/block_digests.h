// Digests of equal blocks of a tensor along one axis, such as the experts of a bank. The tensor's
// bytes arrive in C order, in pieces of any size. A single block is the whole tensor.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/files/digest.h"
#include "ir/graph/type.h"

namespace moec {

class BlockDigests {
 public:
  // `count` must divide type.dims[axis], unless it is 1.
  BlockDigests(const Type& type, size_t axis, int64_t count);

  // Adds the next bytes of the tensor.
  void update(std::span<const std::byte> bytes);

  size_t count() const { return blocks_.size(); }
  std::string hex(size_t block) const { return blocks_[block].digest.hex(); }
  // Returns the number of trailing zero bytes of the block.
  uint64_t zero_tail(size_t block) const { return blocks_[block].zero_tail; }

 private:
  struct Block {
    Digest digest;
    uint64_t zero_tail = 0;
  };

  std::vector<Block> blocks_;
  uint64_t run_ = 0;   // contiguous bytes of a block
  uint64_t done_ = 0;  // bytes processed
};

}  // namespace moec
