#include "backends/formats/gguf/gguf_file.h"

#include <algorithm>

#include "ir/base/invariant.h"

namespace moec {

Result<GgufFile> GgufFile::create(const OutputPath& path, GgufLayout layout, bool sha256) {
  MOEC_ASSIGN(OutputFile file, OutputFile::create(path, layout.file_bytes, sha256));
  MOEC_TRY(file.write(std::as_bytes(std::span(layout.header))));
  return GgufFile(std::move(file), std::move(layout));
}

Status GgufFile::begin_tensor() {
  MOEC_CHECK(next_ < layout_.tensors.size(), "{} received more bytes than its {} tensors have",
             file_.path(), next_);
  MOEC_TRY(file_.pad_to(layout_.offsets[next_]));
  remaining_ = layout_.bytes[next_++];
  return {};
}

// `bytes` may cover several tensors. The inner loop skips tensors of 0 bytes.
Status GgufFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    while (remaining_ == 0) MOEC_TRY(begin_tensor());
    const size_t taken = std::min<uint64_t>(remaining_, bytes.size());
    MOEC_TRY(file_.write(bytes.first(taken)));
    remaining_ -= taken;
    bytes = bytes.subspan(taken);
  }
  return {};
}

// Empty tensors at the end receive no bytes, so write() has not begun them.
Result<OutputFile> GgufFile::finish() && {
  while (remaining_ == 0 && next_ < layout_.tensors.size()) MOEC_TRY(begin_tensor());
  MOEC_CHECK(remaining_ == 0, "{} lacks {} bytes of {}", file_.path(), remaining_,
             layout_.tensors[next_ - 1].name);
  MOEC_TRY(file_.pad_to(layout_.file_bytes));
  return std::move(file_);
}

}  // namespace moec
