// Values of a weight in a file that is mapped read-only. Ops widen the values to f32 piece by
// piece.
//
// An unreadable page of a mapped file (a truncated file, a failing disk) does not crash the
// program. Instead, the page reads as zeros, and PayloadFile::check_unchanged() fails from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backends/weights/views/payload_file.h"
#include "ir/graph/type.h"

namespace moec {

// Byte range of a mapped file.
struct MappedRange {
  const PayloadFile* file = nullptr;
  uint64_t offset = 0, bytes = 0;

  // Allows the system to reclaim the pages that lie completely in the range. A later read loads
  // them from the file again.
  void release() const;
};

class MappedValues {
 public:
  // `dtype` must be f32, f16 or bf16. The elements begin at byte `offset` of a mapped file.
  MappedValues(std::shared_ptr<const PayloadFile> file, uint64_t offset, DType dtype,
               int64_t elements);

  const std::shared_ptr<const PayloadFile>& file() const { return file_; }
  int64_t elements() const { return elements_; }
  DType dtype() const { return dtype_; }
  uint64_t bytes() const { return static_cast<uint64_t>(elements_ * dtype_bytes(dtype_)); }

  // Returns the elements if they are stored as aligned f32; absent otherwise. Reading them requires
  // a MappedRead.
  std::optional<std::span<const float>> as_f32() const;
  // Returns the address of the stored elements. Reading them requires a MappedRead.
  const std::byte* data() const { return file_->mapped() + offset_; }
  // Converts elements [begin, begin + count) to f32. Requires a MappedRead.
  void widen(int64_t begin, size_t count, float* to) const;

  MappedRange range() const { return {file_.get(), offset_, bytes()}; }
  void release() const { range().release(); }

 private:
  std::shared_ptr<const PayloadFile> file_;
  uint64_t offset_ = 0;
  DType dtype_ = DType::f32;
  int64_t elements_ = 0;
};

// Allows the current thread to read a range while this object exists. At most one MappedRead may
// exist per thread.
class MappedRead {
 public:
  explicit MappedRead(const MappedRange& range);
  explicit MappedRead(const MappedValues& values) : MappedRead(values.range()) {}
  MappedRead(const MappedRead&) = delete;
  MappedRead& operator=(const MappedRead&) = delete;
  ~MappedRead();
};

}  // namespace moec
