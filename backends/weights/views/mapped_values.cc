#include "backends/weights/views/mapped_values.h"

#include <signal.h>
#include <sys/mman.h>

#include <mutex>

#include "backends/weights/views/convert.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr uintptr_t kPageBytes = PayloadFile::kBlockBytes;

uintptr_t page_of(uintptr_t address) { return address / kPageBytes * kPageBytes; }

// Range that this thread is reading; empty if it reads nothing.
struct Reading {
  uintptr_t begin = 0, end = 0;
  const PayloadFile* file = nullptr;
};
// SIGBUS is delivered to the thread that caused it, so each thread sees its range without a lock.
thread_local Reading reading;

struct sigaction previous_action;

// SIGBUS handler for an unreadable page of a mapped file: replaces the page with zeros, so that the
// read completes, and marks the file.
void replace_page(int, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool is_ours = address >= reading.begin && address < reading.end;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address comes from the system
  auto* page = reinterpret_cast<void*>(page_of(address));
  if (is_ours && ::mmap(page, kPageBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                        0) != MAP_FAILED) {
    reading.file->note_unreadable();
    return;
  }
  ::sigaction(SIGBUS, &previous_action,
              nullptr);  // returning retries the access under the previous handler
}

void handle_unreadable_pages() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = replace_page;
    action.sa_flags = SA_SIGINFO;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &previous_action);
  });
}

}  // namespace

MappedValues::MappedValues(std::shared_ptr<const PayloadFile> file, uint64_t offset, DType dtype,
                           int64_t elements)
    : file_(std::move(file)), offset_(offset), dtype_(dtype), elements_(elements) {
  MOEC_CHECK(file_->mapped() != nullptr && offset_ + bytes() <= file_->size(),
             "{} elements at byte {} lie outside the mapping of {}", elements_, offset_,
             file_->path());
}

std::optional<std::span<const float>> MappedValues::as_f32() const {
  const auto address = reinterpret_cast<uintptr_t>(data());
  if (dtype_ != DType::f32 || address % alignof(float) != 0) return std::nullopt;
  return std::span(reinterpret_cast<const float*>(data()), static_cast<size_t>(elements_));
}

void MappedValues::widen(int64_t begin, size_t count, float* to) const {
  decode(dtype_, data() + begin * dtype_bytes(dtype_), count, to);
}

// Releases only pages that lie completely in these bytes: neighbours on other pages can be in use.
void MappedRange::release() const {
  const auto first = reinterpret_cast<uintptr_t>(file->mapped() + offset);
  const uintptr_t from = page_of(first + kPageBytes - 1), to = page_of(first + bytes);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): rounded to pages
  if (from < to) ::madvise(reinterpret_cast<void*>(from), to - from, MADV_DONTNEED);
}

MappedRead::MappedRead(const MappedRange& range) {
  handle_unreadable_pages();
  const auto begin = reinterpret_cast<uintptr_t>(range.file->mapped() + range.offset);
  reading = {page_of(begin), begin + range.bytes, range.file};
}

MappedRead::~MappedRead() { reading = {}; }

}  // namespace moec
