// Sums of squares of what the matrices of experts are applied to, as importance matrices hold them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace moec {

// Sums over the tokens of each expert, [experts][columns].
struct ImatrixSums {
  std::vector<std::vector<float>> input;  // of the gate and up matrices
  std::vector<std::vector<float>> inner;  // of the down matrix

  explicit ImatrixSums(int64_t experts)
      : input(static_cast<size_t>(experts)), inner(static_cast<size_t>(experts)) {}
};

// Adds the squares of a row of values to the sums of its columns, which begin empty.
void add_squares(std::vector<float>& sums, std::span<const float> row);

}  // namespace moec
