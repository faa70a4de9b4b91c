// Packs codes that arrive in runs of any length.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/weights/views/view_series.h"

namespace moec {

class CodeWriter {
 public:
  explicit CodeWriter(int bits) : bits_(bits) {}

  void add(std::span<const uint8_t> codes) {
    pending_.insert(pending_.end(), codes.begin(), codes.end());
  }
  // Writes codes that fill whole bytes to the sink; writes all codes if `all` is true.
  Status flush(bool all, const TileSink& sink);

 private:
  int bits_;
  std::vector<uint8_t> pending_;
  std::vector<std::byte> packed_;
};

}  // namespace moec
