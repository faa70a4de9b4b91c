#include "passes/constant_math.h"

#include <algorithm>
#include <cmath>

#include "ir/base/at.h"
#include "ir/graph/elementwise.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

using ConstantOperands = std::vector<const Constant*>;

// Row-major steps of an operand along the axes of a result that it broadcasts to.
std::vector<int64_t> broadcast_strides(const Dims& dims, size_t result_rank) {
  std::vector<int64_t> strides(result_rank, 0);
  int64_t step = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] > 1) strides[axis] = step;
    step *= dims[axis];
  }
  return strides;
}

// The index in the source of the element at a result's linear index, given the source's stride
// along each axis of the result.
int64_t source_index(int64_t linear, const Dims& result, const std::vector<int64_t>& strides) {
  int64_t index = 0;
  for (size_t axis = result.size(); axis-- > 0;) {
    index += (linear % result[axis]) * strides[axis];
    linear /= result[axis];
  }
  return index;
}

bool all_splats(const ConstantOperands& operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Constant* c) { return c->values.size() == 1; });
}

// An element as arithmetic reads it. Literals are stored as doubles and rounded to the constant's
// type when a target loads them.
double loaded_element(const Constant& constant, int64_t i) {
  const double value = element(constant, i);
  if (!is_float(constant.type.dtype)) return value;
  return round_to(constant.type.dtype, static_cast<float>(value));
}

// Calls value(operand elements) for each element of the result, operands broadcast.
template <class F>
Constant elementwise(const Type& result, const ConstantOperands& operands, F&& value) {
  Constant out{result, {}};
  std::vector<std::vector<int64_t>> strides;
  for (const Constant* c : operands)
    strides.push_back(broadcast_strides(c->type.dims, result.rank()));
  const int64_t count = all_splats(operands) ? 1 : result.elements();
  std::vector<double> elements(operands.size());
  for (int64_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < operands.size(); ++k)
      elements[k] = loaded_element(*operands[k], source_index(i, result.dims, strides[k]));
    out.values.push_back(value(elements));
  }
  return out;
}

// The elements of one operand taken in another order: result element i is operand element
// offset + Σ index · stride.
Constant gather(const Type& result, const Constant& x, const std::vector<int64_t>& strides,
                int64_t offset) {
  if (x.values.size() == 1) return {result, x.values};
  Constant out{result, {}};
  for (int64_t i = 0; i < result.elements(); ++i)
    out.values.push_back(element(x, offset + source_index(i, result.dims, strides)));
  return out;
}

std::vector<int64_t> row_major_strides(const Dims& dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * dims[axis];
  return strides;
}

float as_float(double value) { return static_cast<float>(value); }

// These ops are not evaluated: composites, contractions and reductions, because their operands are
// seldom all constants; the others because they have no constant operands or several results.
std::optional<Constant> evaluate_op(
    const OneOf<Attention, GatedMlp, RmsNorm, Router, SoftMoe, Linear, Weight, Constant, Conv,
                MatMul, Reduce, Softmax, TopK, StateRead, StateWrite> auto&,
    const ConstantOperands&, const Type&) {
  return std::nullopt;
}

std::optional<Constant> evaluate_op(const Unary& op, const ConstantOperands& operands,
                                    const Type& type) {
  return elementwise(type, operands, [&](const std::vector<double>& v) {
    return round_to(type.dtype, apply(op.fn, as_float(v[0])));
  });
}

std::optional<Constant> evaluate_op(const Binary& op, const ConstantOperands& operands,
                                    const Type& type) {
  return elementwise(type, operands, [&](const std::vector<double>& v) {
    return round_to(type.dtype, apply(op.fn, as_float(v[0]), as_float(v[1])));
  });
}

std::optional<Constant> evaluate_op(const Compare& op, const ConstantOperands& operands,
                                    const Type& type) {
  return elementwise(type, operands, [&](const std::vector<double>& v) {
    return apply(op.fn, as_float(v[0]), as_float(v[1])) ? 1.0 : 0.0;
  });
}

std::optional<Constant> evaluate_op(const Select&, const ConstantOperands& operands,
                                    const Type& type) {
  return elementwise(type, operands,
                     [](const std::vector<double>& v) { return v[0] != 0 ? v[1] : v[2]; });
}

std::optional<Constant> evaluate_op(const Cast& op, const ConstantOperands& operands,
                                    const Type& type) {
  if (!is_float(op.dtype)) return std::nullopt;
  return elementwise(type, operands, [&](const std::vector<double>& v) {
    return round_to(type.dtype, as_float(v[0]));
  });
}

std::optional<Constant> evaluate_op(const Reshape&, const ConstantOperands& operands,
                                    const Type& type) {
  return Constant{type, operands[0]->values};
}

std::optional<Constant> evaluate_op(const Transpose& op, const ConstantOperands& operands,
                                    const Type& type) {
  const std::vector<int64_t> source = row_major_strides(operands[0]->type.dims);
  std::vector<int64_t> strides;
  for (int64_t axis : op.perm) strides.push_back(at(source, axis));
  return gather(type, *operands[0], strides, 0);
}

std::optional<Constant> evaluate_op(const Slice& op, const ConstantOperands& operands,
                                    const Type& type) {
  const std::vector<int64_t> strides = row_major_strides(operands[0]->type.dims);
  return gather(type, *operands[0], strides, op.begin * at(strides, op.axis));
}

std::optional<Constant> evaluate_op(const Concat& op, const ConstantOperands& operands,
                                    const Type& type) {
  int64_t inner = 1, outer = 1;
  for (int64_t axis = 0; axis < type.rank(); ++axis)
    if (axis != op.axis) (axis < op.axis ? outer : inner) *= type.dims.at(axis);
  Constant out{type, {}};
  for (int64_t i = 0; i < outer; ++i) {
    for (const Constant* part : operands) {
      const int64_t run = part->type.dims.at(op.axis) * inner;
      for (int64_t j = 0; j < run; ++j) out.values.push_back(element(*part, i * run + j));
    }
  }
  return out;
}

}  // namespace

bool is_splat_of(const Constant& constant, double value) {
  return std::all_of(constant.values.begin(), constant.values.end(),
                     [&](double v) { return v == value; });
}

std::optional<Constant> evaluate(const OpData& data, const std::vector<const Constant*>& operands,
                                 const Type& result) {
  auto out = std::visit([&](const auto& op) { return evaluate_op(op, operands, result); }, data);
  // A constant must not be NaN (constant.c4), so an op that gives NaN is kept.
  if (out && std::any_of(out->values.begin(), out->values.end(),
                         [](double value) { return std::isnan(value); }))
    return std::nullopt;
  return out;
}

}  // namespace moec
