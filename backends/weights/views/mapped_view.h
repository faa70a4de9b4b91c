// Codes of a weight in a file that is mapped read-only. Callers decode the codes to f32 a few rows
// at a time.
#pragma once

#include <cstdint>
#include <memory>

#include "backends/weights/views/held_view.h"
#include "backends/weights/views/mapped_values.h"

namespace moec {

class MappedView {
 public:
  // `extent` is the range from the first to the last byte of the view, including bytes between its
  // tensors. `view` must be coded (HeldView::is_coded()).
  MappedView(HeldView view, std::shared_ptr<const PayloadFile> file, MappedRange extent,
             uint64_t bytes);

  const Type& type() const { return view_.type(); }
  const std::shared_ptr<const PayloadFile>& file() const { return file_; }
  uint64_t bytes() const { return bytes_; }  // of codes, scales and tables
  MappedRange range() const { return extent_; }
  void release() const { extent_.release(); }

  // Decodes elements [begin, begin + count), in C order. Requires a MappedRead.
  void widen(int64_t begin, int64_t count, float* to) const;

  const CodedRows& rows() const { return *view_.rows(); }
  const HeldBytes& held() const { return held_; }

 private:
  HeldView view_;
  std::shared_ptr<const PayloadFile> file_;
  MappedRange extent_;
  HeldBytes held_;
  uint64_t bytes_ = 0;
};

}  // namespace moec
