#include "backends/formats/gguf/gguf_cursor.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/json.h"

namespace moec {
namespace {

constexpr uint64_t kFirstBytes = uint64_t{64} << 10;  // covers most headers without a tokenizer

}  // namespace

tl::unexpected<Diagnostics> GgufCursor::error(std::string_view code, std::string cause,
                                              uint64_t offset, std::string_view tensor,
                                              std::string next) const {
  return fail(fmt::format("gguf.{}", code), std::move(cause), std::move(next),
              {.tensor = printable(tensor), .file = path_, .offset = offset});
}

Result<std::string_view> GgufCursor::take(uint64_t count) {
  // at_ is at most file_bytes_ and kGgufMaxHeader, so the differences cannot wrap around.
  if (count > file_bytes_ - at_)
    return error("truncated",
                 fmt::format("{} bytes of the header are missing: the file has {} bytes",
                             count - (file_bytes_ - at_), file_bytes_),
                 at_, {}, "download the file again");
  if (count > kGgufMaxHeader - at_)
    return error("header_too_long",
                 fmt::format("the header has more than {} bytes", kGgufMaxHeader), at_);
  MOEC_TRY(hold(at_ + count));
  const std::string_view bytes = std::string_view(held_).substr(at_, count);
  at_ += count;
  return bytes;
}

// Makes the first `end` bytes of the file available in held_. Doubles the buffer up to the limits
// below, so that a long header needs few reads.
Status GgufCursor::hold(uint64_t end) {
  const uint64_t held = held_.size();
  if (end <= held) return {};
  // A cursor over memory cannot read more.
  if (rest_ == nullptr)
    return error("incomplete", "the header extends beyond the given bytes", held);
  // Reads at most the file, and at most kGgufMaxHeader bytes unless `end` is larger.
  const uint64_t wanted = std::min(
      {std::max({end, 2 * held, kFirstBytes}), file_bytes_, std::max(end, kGgufMaxHeader)});
  held_.resize(wanted);
  return rest_->read_into(held, std::span(held_).subspan(held));
}

// The length is checked against the limit before take() allocates anything.
Result<std::string_view> GgufCursor::string(std::string_view what) {
  const uint64_t begin = at_;
  MOEC_ASSIGN(const auto length, number<uint64_t>());
  if (length > kGgufMaxString)
    return error("string_too_long",
                 fmt::format("{} has {} bytes, the limit is {}", what, length, kGgufMaxString),
                 begin);
  return take(length);
}

}  // namespace moec
