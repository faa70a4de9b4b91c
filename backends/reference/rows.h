// A matrix with one row per token, f32 and row-major.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

struct Rows {
  int64_t columns = 0;
  std::vector<float> data;

  int64_t count() const { return columns == 0 ? 0 : std::ssize(data) / columns; }
  std::span<const float> row(int64_t index) const {
    return std::span(data).subspan(static_cast<size_t>(index * columns),
                                   static_cast<size_t>(columns));
  }
};

}  // namespace moec
