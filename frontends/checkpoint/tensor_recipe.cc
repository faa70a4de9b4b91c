#include "frontends/checkpoint/tensor_recipe.h"

namespace moec {

MatrixPart rows_of(const MatrixPart& matrix, int64_t begin, int64_t size) {
  MatrixPart part = matrix;
  part.view = then(std::move(part.view), SliceStep{0, begin, size});
  // (B A)[rows] = B[rows] A: a cut of rows affects only B.
  if (part.low_rank) part.low_rank->b = then(part.low_rank->b, SliceStep{0, begin, size});
  return part;
}

MatrixPart columns_of(const MatrixPart& matrix, int64_t begin, int64_t size) {
  MatrixPart part = matrix;
  part.view = then(std::move(part.view), SliceStep{1, begin, size});
  // (B A)[:, columns] = B A[:, columns]: a cut of columns affects only A.
  if (part.low_rank) part.low_rank->a = then(part.low_rank->a, SliceStep{1, begin, size});
  return part;
}

}  // namespace moec
