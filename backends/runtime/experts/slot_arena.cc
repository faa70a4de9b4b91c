#include "backends/runtime/experts/slot_arena.h"

#include <sys/mman.h>

#include <utility>

#include "ir/base/refusals.h"

namespace moec {
namespace {

// Arenas of at least this size use huge pages: these waste little memory here, and direct I/O pins
// them at less cost.
constexpr uint64_t kLargeBytes = uint64_t{256} << 20;

}  // namespace

Result<SlotArena> SlotArena::create(uint64_t bytes) {
  SlotArena arena;
  // mmap() refuses a length of 0.
  if (bytes == 0) return arena;
  // MAP_NORESERVE reserves no swap space for slots that a run never fills.
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) return fail(Diagnostics{refused_memory()});
  // A failure is ignored, because huge pages affect only the speed.
  if (bytes >= kLargeBytes) ::madvise(pages, bytes, MADV_HUGEPAGE);
  arena.data_ = static_cast<std::byte*>(pages);
  arena.bytes_ = bytes;
  return arena;
}

SlotArena::SlotArena(SlotArena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

SlotArena& SlotArena::operator=(SlotArena&& other) noexcept {
  // The destructor of `other` unmaps the old memory.
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SlotArena::~SlotArena() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace moec
