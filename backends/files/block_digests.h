// Digests of the equal blocks of a tensor along one axis, such as the parts of the experts in a
// bank. The tensor's bytes are passed in C order, in pieces of any size. With one block, that of
// the whole tensor.
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
  // `count` divides dims[axis]; a scalar is one block.
  BlockDigests(const Type& type, size_t axis, int64_t count);

  // Adds the next bytes of the tensor.
  void update(std::span<const std::byte> bytes);

  size_t count() const { return blocks_.size(); }
  std::string hex(size_t block) const { return blocks_[block].digest.hex(); }
  // How many of the block's last bytes are zero.
  uint64_t zero_tail(size_t block) const { return blocks_[block].zero_tail; }

 private:
  struct Block {
    Digest digest;
    uint64_t zero_tail = 0;
  };

  std::vector<Block> blocks_;
  uint64_t run_ = 0;   // bytes of a block that lie together
  uint64_t done_ = 0;  // bytes seen
};

}  // namespace moec
