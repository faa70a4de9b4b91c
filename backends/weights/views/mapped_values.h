// Values of a weight that stay in their file, which is mapped into memory read-only. They are
// widened to f32 a few at a time, by whoever computes with them.
//
// A page of a mapped file that cannot be read (the file was cut, or the disk fails) is no crash: it
// reads as zeros, and PayloadFile::check_unchanged() fails from then on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "backends/weights/views/payload_file.h"
#include "ir/graph/type.h"

namespace moec {

class MappedValues {
 public:
  // Elements of type f32, f16 or bf16, at `offset` bytes of a file that is mapped.
  MappedValues(std::shared_ptr<const PayloadFile> file, uint64_t offset, DType dtype,
               int64_t elements);

  const std::shared_ptr<const PayloadFile>& file() const { return file_; }
  int64_t elements() const { return elements_; }
  DType dtype() const { return dtype_; }
  uint64_t bytes() const { return static_cast<uint64_t>(elements_ * dtype_bytes(dtype_)); }

  // The elements as f32, if that is how they are stored. To be read under a MappedRead.
  std::optional<std::span<const float>> as_f32() const;
  // The elements as they are stored. To be read under a MappedRead.
  const std::byte* data() const { return file_->mapped() + offset_; }
  // Converts elements begin … begin + count - 1. To be called under a MappedRead.
  void widen(int64_t begin, size_t count, float* to) const;

  // Gives the memory of the elements back to the system; the file holds them still.
  void release() const;

 private:
  std::shared_ptr<const PayloadFile> file_;
  uint64_t offset_ = 0;
  DType dtype_ = DType::f32;
  int64_t elements_ = 0;
};

// While it lives, the thread may read the mapped elements. One at a time in a thread.
class MappedRead {
 public:
  explicit MappedRead(const MappedValues& values);
  MappedRead(const MappedRead&) = delete;
  MappedRead& operator=(const MappedRead&) = delete;
  ~MappedRead();
};

}  // namespace moec
