// Writes a GGUF file as it was planned: the header at once, then the tensors' bytes in order.
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

  // The next bytes of the tensors, in pieces of any size: the tensors' bytes one after the other,
  // without padding, which is added here. No more than the layout has.
  Status write(std::span<const std::byte> bytes);

  // Pads the last tensor. Every byte of the layout must have been written by now. The file can then
  // be synced and published.
  Result<OutputFile> finish() &&;

 private:
  GgufFile(OutputFile file, GgufLayout layout)
      : file_(std::move(file)), layout_(std::move(layout)) {}
  Status begin_tensor();

  OutputFile file_;
  GgufLayout layout_;
  size_t next_ = 0;         // the tensor behind the one that is being written
  uint64_t remaining_ = 0;  // of that tensor
};

}  // namespace moec
