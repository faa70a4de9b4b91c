// Paged weights: a shard is loaded without them, and their bytes are loaded and evicted in units,
// between and during runs. A unit is all bytes of an expert in one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Bytes [offset, offset + bytes) of the file.
struct HeldPiece {
  uint64_t offset = 0, bytes = 0;
  const std::byte* data = nullptr;
};

// Bytes of a weight file in temporary memory, such as an expert in its slot.
class HeldBytes {
 public:
  explicit HeldBytes(std::vector<HeldPiece> pieces) : pieces_(std::move(pieces)) {}

  // Returns the address of bytes [offset, offset + bytes) of the file; null if no piece contains
  // all of them.
  const std::byte* find(uint64_t offset, uint64_t bytes) const {
    for (const HeldPiece& piece : pieces_)
      if (offset >= piece.offset && offset - piece.offset <= piece.bytes &&
          bytes <= piece.bytes - (offset - piece.offset))
        return piece.data + (offset - piece.offset);
    return nullptr;
  }

 private:
  std::vector<HeldPiece> pieces_;
};

class WeightPager {
 public:
  virtual ~WeightPager() = default;

  // Returns the unit that contains bytes [offset, offset + bytes) of the file; absent if they are
  // not paged.
  virtual std::optional<size_t> unit_of(const std::string& path, uint64_t offset,
                                        uint64_t bytes) const = 0;
  // Waits until the unit is loaded and returns its bytes, which stay valid until release(). Returns
  // null if this run does not use the unit. Errors: those of reading the file.
  virtual Result<const HeldBytes*> acquire(size_t unit) = 0;
  // Ends the use of the unit in this run.
  virtual void release(size_t unit) = 0;
};

}  // namespace moec
