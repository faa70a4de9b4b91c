// Evaluates ops: one function per op computes the results from the operands' values. The functions
// do not round results to their element types; the executor does so for all ops.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/reference/products.h"
#include "backends/reference/reference.h"
#include "backends/reference/tokens.h"

namespace moec {

struct Call {
  const std::vector<const Tensor*>& operands;
  std::span<const Type> types;  // of the results
  // The stored weight of each operand; null if `operands` contains the operand's values. Empty if
  // no operand is stored.
  std::vector<const StoredWeight*> stored;

  // Called with the rows [tokens, inputs] to which the matrix in operand `operand` is applied; may
  // be empty.
  std::function<void(size_t operand, int64_t inputs, std::span<const float> rows)> applied;
  ExpertProbe expert;                  // called for each expert that tokens chose; may be empty
  const Products* products = nullptr;  // null: sums in Eigen's order
  bool right_is_turned = false;  // operand 1 of a product is the transpose of its right factor

  const Tensor& operator[](size_t i) const { return *operands[i]; }
  const Type& type() const { return types.front(); }
};

// Rows [first, first + count) of an operand, taken as a matrix with as many columns as a token has
// channels.
struct MatrixRows {
  size_t operand = 0;
  int64_t first = 0, count = 0;
};
// Returns W · x for each row x, W the rows. The operand may be stored.
TokenRows project(const Call& call, const MatrixRows& rows, const TokenRows& x);

std::vector<Tensor> eval(const Attention& op, const Call& call);
std::vector<Tensor> eval(const TopK& op, const Call& call);

Tensor eval(const GatedMlp& op, const Call& call);
Tensor eval(const RmsNorm& op, const Call& call);
Tensor eval(const Router& op, const Call& call);
Tensor eval(const SoftMoe& op, const Call& call);
Tensor eval(const Linear& op, const Call& call);
Tensor eval(const Constant& op, const Call& call);
Tensor eval(const Conv& op, const Call& call);
Tensor eval(const MatMul& op, const Call& call);
Tensor eval(const Moe& op, const Call& call);
Tensor eval(const Unary& op, const Call& call);
Tensor eval(const Binary& op, const Call& call);
Tensor eval(const Compare& op, const Call& call);
Tensor eval(const Select& op, const Call& call);
Tensor eval(const Cast& op, const Call& call);
Tensor eval(const Reduce& op, const Call& call);
Tensor eval(const Softmax& op, const Call& call);
Tensor eval(const Slice& op, const Call& call);
Tensor eval(const Concat& op, const Call& call);
Tensor eval(const Reshape& op, const Call& call);
Tensor eval(const Transpose& op, const Call& call);

}  // namespace moec
