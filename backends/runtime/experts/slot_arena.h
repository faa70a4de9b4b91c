// Page-aligned memory for the slots, as direct I/O requires. Pages that were never written use no
// physical memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/base/diagnostics.h"

namespace moec {

class SlotArena {
 public:
  SlotArena() = default;
  // Error: system.memory.
  static Result<SlotArena> create(uint64_t bytes);
  SlotArena(SlotArena&& other) noexcept;
  SlotArena& operator=(SlotArena&& other) noexcept;
  ~SlotArena();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace moec
