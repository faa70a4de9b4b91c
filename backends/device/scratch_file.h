// A temporary file with numbers that are valid in every storage form of weights.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backends/weights/views/payload_file.h"
#include "ir/base/diagnostics.h"

namespace moec {

class ScratchFile {
 public:
  // Writes `bytes` bytes, a multiple of 1 MiB, to a new file in `folder` and removes it from the
  // page cache. Removes the files of earlier runs that were killed. Errors: those of Folder and
  // PayloadFile.
  static Result<ScratchFile> create(const std::string& folder, uint64_t bytes);

  ScratchFile(ScratchFile&& other) noexcept;
  ScratchFile& operator=(ScratchFile&&) = delete;
  // Removes the file.
  ~ScratchFile();

  const std::string& path() const { return path_; }
  const PayloadFile& file() const { return *file_; }

 private:
  explicit ScratchFile(std::string path) : path_(std::move(path)) {}

  std::string path_;  // empty after a move
  std::unique_ptr<PayloadFile> file_;
};

}  // namespace moec
