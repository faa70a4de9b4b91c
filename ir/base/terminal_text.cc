#include "ir/base/terminal_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace moec {
namespace {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 1;
};

uint8_t byte_at(std::string_view text, size_t i) { return static_cast<uint8_t>(text[i]); }

bool is_continuation(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// Number of bytes of a character with this first byte; 0 if no character begins with this byte.
size_t length_of(uint8_t first) {
  if (first < 0x80) return 1;
  // 0xc0 and 0xc1 could only begin overlong forms; 0xf5 and above would exceed U+10FFFF.
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

// The first character of the text. Overlong forms and surrogates are decoded as a lenient terminal
// would decode them.
std::optional<CodePoint> decode(std::string_view text) {
  const size_t length = length_of(byte_at(text, 0));
  if (length == 0 || length > text.size()) return std::nullopt;
  // Mask of the payload bits in the first byte, indexed by the character's number of bytes.
  constexpr std::array<uint8_t, 5> kPayload = {0, 0x7f, 0x1f, 0x0f, 0x07};
  CodePoint point{static_cast<uint32_t>(byte_at(text, 0) & kPayload[length]), length};
  for (size_t i = 1; i < length; ++i) {
    if (!is_continuation(byte_at(text, i))) return std::nullopt;
    point.value = point.value << 6 | (byte_at(text, i) & 0x3f);
  }
  return point;
}

bool must_be_escaped(uint32_t c) {
  struct Range {
    uint32_t first, last;
  };
  constexpr Range kRanges[] = {
      {0x00, 0x08},     {0x0b, 0x1f},      // C0 without tab and newline
      {0x7f, 0x9f},                        // DEL and C1
      {0x061c, 0x061c}, {0x200e, 0x200f},  // marks of direction
      {0x2028, 0x202e},                    // separators; embeddings and overrides
      {0x2066, 0x2069},                    // isolates
  };
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](const Range& range) { return c >= range.first && c <= range.last; });
}

}  // namespace

std::string escape_controls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::optional<CodePoint> point = decode(text);
    const size_t bytes = point ? point->bytes : 1;
    if (!point)
      out += fmt::format("\\x{:02x}", byte_at(text, 0));
    else if (must_be_escaped(point->value))
      out += fmt::format("\\u{:04x}", point->value);
    else
      out += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

size_t unfinished_bytes(std::string_view text) {
  // A character has at most 4 bytes, so an incomplete one has at most 3.
  for (size_t bytes = 1; bytes <= std::min<size_t>(3, text.size()); ++bytes) {
    const uint8_t byte = byte_at(text, text.size() - bytes);
    if (!is_continuation(byte)) return length_of(byte) > bytes ? bytes : 0;
  }
  return 0;
}

}  // namespace moec
