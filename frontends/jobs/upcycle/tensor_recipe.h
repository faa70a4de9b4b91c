// How the tensors of a new checkpoint are made of those of others: pieces, each a view of stored
// values and the changes to them. Nothing is read before a piece is written.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph/type.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Added to a matrix [rows, columns]: factor · b · a, with b [rows, rank] and a [rank, columns].
struct LowRank {
  WeightView b, a;
  double factor = 1;
};

// Rows (axis 0) or columns (axis 1) of a matrix that are drawn anew, with the mean and standard
// deviation of the values of `like`.
struct Redraw {
  std::vector<bool> units;  // by row or column
  size_t axis = 0;
  WeightView like;
  uint64_t seed = 0;
};

// Normal noise that is added to every value.
struct Noise {
  double std = 0;
  uint64_t seed = 0;
};

// Values in C order: those of the view, plus low rank, then units drawn anew, times the factor,
// plus noise, rounded once to the tensor's type.
struct TensorPiece {
  WeightView view;
  std::optional<LowRank> low_rank;
  std::optional<Redraw> redraw;
  double factor = 1;
  std::optional<Noise> noise;

  // Whether the view and the factor are all of it.
  bool is_view() const { return !low_rank && !redraw && !noise; }
};

struct NewTensor {
  std::string name;
  Type type;
  std::vector<TensorPiece>
      pieces;  // one behind the other: together they have the tensor's elements
};

// Rows [begin, begin + size) of a matrix, or its columns, with what is added to it.
struct MatrixPart {
  WeightView view;
  std::optional<LowRank> low_rank;
};
MatrixPart rows_of(const MatrixPart& matrix, int64_t begin, int64_t size);
MatrixPart columns_of(const MatrixPart& matrix, int64_t begin, int64_t size);

}  // namespace moec
