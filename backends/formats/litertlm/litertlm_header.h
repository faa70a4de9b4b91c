// The container of a .litertlm file: a header of at most 16 KiB, then sections at multiples of
// 16 KiB. Bytes 0 to 7 are "LITERTLM", then three u32 of the version, a u64 at byte 24 with the end
// of the flatbuffer (litertlm.fbs), which begins at byte 32. Numbers are little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moec {

inline constexpr uint64_t kLitertlmBlock = 16 * 1024;

enum class LitertlmContent : uint8_t { metadata, tokenizer, model };

struct LitertlmSection {
  LitertlmContent content = LitertlmContent::metadata;
  uint64_t begin = 0, end = 0;  // positions in the file
};

// Returns the header, at most kLitertlmBlock bytes.
std::string litertlm_header(const std::vector<LitertlmSection>& sections);

}  // namespace moec
