// Stored forms of the lower triangle of a block of second moments, both in little-endian order:
//
//   sums          rows 0 … I − 1 of S = Σ x·xᵀ, row i with its first i + 1 elements, f32
//   correlations  the diagonal of S, f32; then rows 1 … I − 1 of r_ij = S_ij / √(S_ii·S_jj), row i
//                 with its first i elements, int16 in steps of 1 / 32,767
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "backends/weights/encode/hessian.h"

namespace moec {

enum class TriangleForm : uint8_t { sums, correlations };

// Returns the byte offset of `row` in a triangle of `inputs` inputs. For row `inputs`, this is the
// size of the triangle.
uint64_t row_offset(TriangleForm form, int64_t inputs, int64_t row);

// Passes the bytes of the triangle of correlations to `write`, row by row. `block` must pass
// check_hessian().
Status write_triangle(const Hessian& block,
                      const std::function<Status(std::span<const std::byte>)>& write);

// Decodes the rows of one triangle.
class TriangleRows {
 public:
  // `head` is the bytes of the triangle before row 0 (row_offset()).
  TriangleRows(TriangleForm form, std::string_view head);
  // Returns elements 0 … `row` of that row of S, decoded from the row's bytes; valid until the next
  // call.
  std::span<const float> decode(int64_t row, const char* bytes);

 private:
  TriangleForm form_;
  std::vector<float> diagonal_;
  std::vector<double> roots_;  // of the diagonal
  std::vector<float> row_;
};

}  // namespace moec
