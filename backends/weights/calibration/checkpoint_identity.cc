#include "backends/weights/calibration/checkpoint_identity.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "backends/files/digest.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

// The first bytes of a file contain its header, or most of it.
constexpr uint64_t kStart = 256 << 10, kSample = 4096;
// Samples are read, because reading a whole checkpoint takes minutes. They miss a change that lies
// between them.
constexpr uint64_t kSamples = 64;

void add_text(Digest& digest, std::string_view text) {
  digest.update(std::as_bytes(std::span(text)));
}

Status add_file(Digest& digest, const std::string& path) {
  MOEC_ASSIGN(const RegularFile file, RegularFile::open(path));
  add_text(digest, fmt::format("{} bytes\n", file.size()));
  MOEC_ASSIGN(const std::string start, file.read(0, std::min(kStart, file.size())));
  add_text(digest, start);
  for (uint64_t i = 1; i <= kSamples; ++i) {
    // The last sample ends at the end of the file. Dividing first avoids overflow.
    const uint64_t end = file.size() / kSamples * i + (i == kSamples ? file.size() % kSamples : 0);
    const uint64_t begin = end > kSample ? end - kSample : 0;
    MOEC_ASSIGN(const std::string sample, file.read(begin, end - begin));
    add_text(digest, sample);
  }
  return {};
}

}  // namespace

Result<std::string> checkpoint_identity(std::string_view config, const WeightTable& weights) {
  Digest digest;
  add_text(digest, digest_text(config));
  for (const WeightFile& file : weights.files) MOEC_TRY(add_file(digest, file.path));
  return digest.hex();
}

}  // namespace moec
