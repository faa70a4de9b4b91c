// Recipes for the tensors of a new checkpoint. A tensor consists of pieces, which are views of
// stored values with changes. Values are read only when a piece is written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Update of a matrix [rows, columns]: adds factor · b · a, with b [rows, rank] and a [rank,
// columns].
struct LowRank {
  WeightView b, a;
  double factor = 1;
};

// Rows (axis 0) or columns (axis 1) of a matrix to redraw from a normal distribution with the mean
// and standard deviation of `like`.
struct Redraw {
  std::vector<bool> units;  // per row or column: redraw it
  size_t axis = 0;
  WeightView like;
  uint64_t seed = 0;
};

// Normal noise, added to every value.
struct Noise {
  double std = 0;
  uint64_t seed = 0;
};

// Values in C order: the view plus `low_rank`, with units of `redraw` replaced, times `factor`,
// plus `noise`; rounded once to the tensor's type.
struct TensorPiece {
  WeightView view;
  std::optional<LowRank> low_rank;
  std::optional<Redraw> redraw;
  double factor = 1;
  std::optional<Noise> noise;

  // True if the piece has no changes except the factor.
  bool is_view() const { return !low_rank && !redraw && !noise; }
};

struct NewTensor {
  std::string name;
  Type type;
  std::vector<TensorPiece> pieces;  // concatenated in C order: all elements of the tensor
};

// A matrix and its low-rank update.
struct MatrixPart {
  WeightView view;
  std::optional<LowRank> low_rank;
};
// Rows, or columns, [begin, begin + size) of a matrix.
MatrixPart rows_of(const MatrixPart& matrix, int64_t begin, int64_t size);
MatrixPart columns_of(const MatrixPart& matrix, int64_t begin, int64_t size);

}  // namespace moec
