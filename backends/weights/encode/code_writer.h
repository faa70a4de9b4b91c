// Packs codes that arrive in runs of any length.
#pragma once

#include <vector>

#include "backends/weights/pack_bits.h"
#include "backends/weights/view_series.h"

namespace moec {

class CodeWriter {
 public:
  explicit CodeWriter(int bits) : bits_(bits) {}

  void add(std::span<const uint8_t> codes) {
    pending_.insert(pending_.end(), codes.begin(), codes.end());
  }
  // Gives the codes that fill whole bytes to the sink, or all of them.
  Status flush(bool all, const TileSink& sink) {
    const size_t count = all ? pending_.size() : pending_.size() / 8 * 8;
    if (count == 0) return {};
    packed_.resize(packed_bytes(count, bits_));
    pack_bits(std::span(pending_).first(count), bits_, packed_.data());
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
    return sink(packed_);
  }

 private:
  int bits_;
  std::vector<uint8_t> pending_;
  std::vector<std::byte> packed_;
};

}  // namespace moec
