// Reads the header of a GGUF file from its start on. The header states no length, so that a cursor
// over a file fetches more of it as the header turns out to be longer.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "backends/formats/gguf/gguf_format.h"
#include "ir/base/diagnostics.h"
#include "ir/base/regular_file.h"

namespace moec {

class GgufCursor {
 public:
  // Over the start of a file of `file_bytes`, which `path` names in messages.
  GgufCursor(std::string start, uint64_t file_bytes, std::string path)
      : held_(std::move(start)), file_bytes_(file_bytes), path_(std::move(path)) {}
  // Over a file, which must outlive the cursor.
  explicit GgufCursor(const RegularFile& file)
      : file_bytes_(file.size()), path_(file.path()), rest_(&file) {}

  uint64_t at() const { return at_; }
  uint64_t file_bytes() const { return file_bytes_; }
  const std::string& path() const { return path_; }
  // Gives away the first `end` bytes, which were taken before. Nothing can be taken after that.
  std::string release(uint64_t end) {
    held_.resize(end);
    held_.shrink_to_fit();
    return std::move(held_);
  }

  // The next bytes, valid until the next call. Errors: gguf.truncated, gguf.header_too_long,
  // gguf.incomplete where the start in memory ends before, file.*.
  Result<std::string_view> take(uint64_t count);
  template <class T>
  Result<T> number() {
    MOEC_ASSIGN(const std::string_view bytes, take(sizeof(T)));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  // A length and as many bytes; `what` is for messages. Errors also gguf.string_too_long.
  Result<std::string_view> string(std::string_view what);

  // An error of code gguf.`code` at an offset of the file.
  tl::unexpected<Diagnostics> error(
      std::string_view code, std::string cause, uint64_t offset, std::string_view tensor = {},
      std::string next = "The file is damaged: fetch it again.") const;

 private:
  Status hold(uint64_t end);

  std::string held_;
  uint64_t at_ = 0;
  uint64_t file_bytes_;
  std::string path_;
  const RegularFile* rest_ = nullptr;  // where bytes after held_ come from
};

}  // namespace moec
