// Bytes of a file of weights in memory that comes and goes: those of an expert in its slot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace moec {

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

}  // namespace moec
