// Sequential reader of a GGUF header. The header does not state its length, so a cursor over a file
// reads more of the file as needed.
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
  // Reads the start of a file of `file_bytes` from memory. `path` is for messages.
  GgufCursor(std::string start, uint64_t file_bytes, std::string path)
      : held_(std::move(start)), file_bytes_(file_bytes), path_(std::move(path)) {}
  // Reads a file, which must outlive the cursor.
  explicit GgufCursor(const RegularFile& file)
      : file_bytes_(file.size()), path_(file.path()), rest_(&file) {}

  uint64_t at() const { return at_; }
  uint64_t file_bytes() const { return file_bytes_; }
  const std::string& path() const { return path_; }
  // Moves out the first `end` bytes, which must have been read. The cursor must not be used
  // afterwards.
  std::string release(uint64_t end) {
    held_.resize(end);
    held_.shrink_to_fit();
    return std::move(held_);
  }

  // Returns the next bytes, valid until the next call. Errors: gguf.truncated,
  // gguf.header_too_long, gguf.incomplete (the bytes in memory end too early), file.*.
  Result<std::string_view> take(uint64_t count);
  template <class T>
  Result<T> number() {
    MOEC_ASSIGN(const std::string_view bytes, take(sizeof(T)));
    T value{};
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
  // Reads a length-prefixed string; `what` names it in messages. Further error:
  // gguf.string_too_long.
  Result<std::string_view> string(std::string_view what);

  // Returns an error with code gguf.`code` at an offset in the file.
  tl::unexpected<Diagnostics> error(std::string_view code, std::string cause, uint64_t offset,
                                    std::string_view tensor = {},
                                    std::string next = "download the file again") const;

 private:
  Status hold(uint64_t end);

  std::string held_;
  uint64_t at_ = 0;
  uint64_t file_bytes_;
  std::string path_;
  const RegularFile* rest_ = nullptr;  // source of the bytes after held_
};

}  // namespace moec
