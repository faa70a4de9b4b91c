// Memory of a fixed number of slots, aligned for reads past the page cache. What was never written
// takes no memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ir/base/diagnostics.h"

namespace moec {

class SlotArena {
 public:
  SlotArena() = default;
  // Error system.memory.
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
