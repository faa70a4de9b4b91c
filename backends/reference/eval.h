// One function an op: the results, from the operands' values. Nothing is rounded to the results'
// element types here; the executor does that for all ops alike.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "backends/reference/reference.h"
#include "backends/reference/stored_weight.h"

namespace moec {

struct Call {
  std::vector<const Tensor*> operands;
  std::span<const Type> types;              // of the results
  std::vector<const StoredWeight*> stored;  // by operand; null, or none at all: `operands` has it

  // Told of the rows [tokens, inputs] that the matrix in an operand is applied to; may be empty.
  std::function<void(size_t operand, int64_t inputs, std::span<const float> rows)> applied;
  ExpertProbe expert;            // told of each expert that tokens chose; may be empty
  bool right_is_turned = false;  // operand 1 of a product is what its right factor transposes

  const Tensor& operator[](size_t i) const { return *operands[i]; }
  const Type& type() const { return types.front(); }
};

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
