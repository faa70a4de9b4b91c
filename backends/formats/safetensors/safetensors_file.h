// Writes a planned safetensors file: the header on creation, then the tensors' bytes in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/files/output_file.h"
#include "backends/formats/safetensors/safetensors_layout.h"
#include "ir/base/diagnostics.h"

namespace moec {

class SafetensorsFile {
 public:
  // Creates the file under its temporary name, reserves its bytes and writes the header. Errors,
  // here and below: those of OutputFile.
  static Result<SafetensorsFile> create(const std::string& folder, const SafetensorsPart& part);

  // Appends the next bytes of the tensors, in pieces of any size.
  Status write(std::span<const std::byte> bytes);

  // All planned bytes must have been written. Returns the file for sync() and publish().
  OutputFile finish() &&;

 private:
  SafetensorsFile(OutputFile file, uint64_t bytes) : file_(std::move(file)), bytes_(bytes) {}

  OutputFile file_;
  uint64_t bytes_ = 0;  // of the whole file
};

}  // namespace moec
