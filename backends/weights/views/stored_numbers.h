// Numbers in a file, as floats: elements of a type, or packed codes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "backends/weights/views/weight_pager.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// File and byte offset at which stored data begins.
struct FileExtent {
  size_t file = 0;
  uint64_t offset = 0;
};

// Consecutive numbers in a file, or one constant.
struct StoredNumbers {
  FileExtent at;
  std::variant<DType, Packing, float> form = DType::f32;  // float: the constant
  int64_t first = 0;  // index of the first number, relative to `at`

  void skip(int64_t count) { first += count; }
  // Returns true if every possible number is a valid index of a table of `entries` entries. Tables
  // of more than 256 entries are not supported.
  bool are_indices(int64_t entries) const;
};

bool holds_packing(const StoredNumbers& numbers, Packing packing);
// Returns the values of the 16 codes of a packing of 4 bits.
std::array<float, 16> nibble_values(Packing packing);

class NumberReader {
 public:
  NumberReader(const StoredNumbers& numbers, const HeldBytes& held)
      : numbers_(numbers), held_(held) {}

  // Reads numbers [index, index + count). Returns false if bytes are missing.
  bool read(int64_t index, int64_t count, float* to) const;
  // Returns numbers [index, index + count): in place if they are stored as f32, else copied to
  // `buffer`. Returns null if bytes are missing.
  const float* get(int64_t index, int64_t count, float* buffer) const;
  // Returns the bytes of packed numbers [index, index + count); null if the first number does not
  // start at a byte boundary, or if bytes are missing.
  const std::byte* bytes(int64_t index, int64_t count) const;

 private:
  const std::byte* find(int64_t byte, int64_t bytes) const;
  bool read_packed(Packing packing, int64_t index, int64_t count, float* to) const;
  bool read_part(Packing packing, int64_t index, int64_t count, float* to) const;

  const StoredNumbers& numbers_;
  const HeldBytes& held_;
};

}  // namespace moec
