// Weights that are not read when a shard is loaded: their bytes come and go between and during
// runs, unit by unit. A unit is all that an expert has in one file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Bytes of a file of weights in memory that comes and goes: those of an expert in its slot.

// Bytes [offset, offset + bytes) of the file.
struct HeldPiece {
  uint64_t offset = 0, bytes = 0;
  const std::byte* data = nullptr;
};

class HeldBytes {
 public:
  explicit HeldBytes(std::vector<HeldPiece> pieces) : pieces_(std::move(pieces)) {}

  // Where these bytes of the file lie; null if no piece has all of them.
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

  // The unit that has these bytes of the file; nothing if they are not paged.
  virtual std::optional<size_t> unit_of(const std::string& path, uint64_t offset,
                                        uint64_t bytes) const = 0;
  // The bytes of the unit, which stay until release(). Waits until they are there. Null: the unit
  // takes no part in this run. Errors: those of reading the file.
  virtual Result<const HeldBytes*> acquire(size_t unit) = 0;
  // The run needs the unit no more.
  virtual void release(size_t unit) = 0;
};

}  // namespace moec
