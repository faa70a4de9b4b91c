// Writes a planned GGUF file: the header on creation, then the tensors' bytes in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/files/output_file.h"
#include "backends/formats/gguf/gguf_layout.h"
#include "ir/base/diagnostics.h"

namespace moec {

class GgufFile {
 public:
  // Creates the file under its temporary name and writes the header. Errors, here and below: those
  // of OutputFile.
  static Result<GgufFile> create(const OutputPath& path, GgufLayout layout, bool sha256 = false);

  // Appends tensor bytes, in pieces of any size. The caller passes the tensors in order and without
  // padding, which write() adds. The total must not exceed the bytes of the layout.
  Status write(std::span<const std::byte> bytes);

  // Pads the last tensor. All bytes of the layout must have been written. Returns the file for
  // sync() and publish().
  Result<OutputFile> finish() &&;

 private:
  GgufFile(OutputFile file, GgufLayout layout)
      : file_(std::move(file)), layout_(std::move(layout)) {}
  Status begin_tensor();

  OutputFile file_;
  GgufLayout layout_;
  size_t next_ = 0;         // index of the tensor after the current one
  uint64_t remaining_ = 0;  // bytes of the current tensor
};

}  // namespace moec
