#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "ir/base/at.h"
#include "ir/graph/elementwise.h"
#include "ir/graph/ops.h"
#include "ir/graph/rewriter.h"
#include "ir/graph/scalar.h"
#include "ir/graph/type.h"
#include "passes/passes.h"

namespace moec {

namespace {

// Evaluates ops on constants with the same element functions as the reference executor.

// Element i of a constant, in row-major order.
double element(const Constant& constant, int64_t i) {
  return constant.values.size() == 1 ? constant.values[0] : constant.values[static_cast<size_t>(i)];
}

using ConstantOperands = std::vector<const Constant*>;

// Row-major strides of an operand along the axes of its broadcast result; 0 along broadcast axes.
std::vector<int64_t> broadcast_strides(const Dims& dims, size_t result_rank) {
  std::vector<int64_t> strides(result_rank, 0);
  int64_t step = 1;
  for (size_t axis = dims.size(); axis-- > 0;) {
    if (dims[axis] > 1) strides[axis] = step;
    step *= dims[axis];
  }
  return strides;
}

// Maps the linear index of a result element to the index of its source element. `strides` are the
// source's strides along the axes of the result.
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

// Returns an element as an operand of arithmetic. Literals are stored as doubles; targets round
// them to the constant's type when they load them.
double loaded_element(const Constant& constant, int64_t i) {
  const double value = element(constant, i);
  if (!is_float(constant.type.dtype)) return value;
  return round_to(constant.type.dtype, static_cast<float>(value));
}

// Computes each element of the result as value(elements of the broadcast operands).
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

// Reorders the elements of one operand: a result element is operand element offset + Σ index ·
// stride.
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

// Ops that are not evaluated. The operands of composites, contractions and reductions are rarely
// all constants; the other ops have no constant operands, or have several results.
std::optional<Constant> evaluate_op(
    const InGroup<OpGroup::composite, OpGroup::source, OpGroup::contraction, OpGroup::along_axis,
                  OpGroup::state> auto&,
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

// True if every element has this value.
bool is_splat_of(const Constant& constant, double value) {
  return std::all_of(constant.values.begin(), constant.values.end(),
                     [&](double v) { return v == value; });
}

// Returns the result of an op on constants. Empty for ops that are not evaluated (such as
// contractions, reductions, softmax, top-k, casts to integers) and for results that contain NaN.
// Elementwise ops on splats return splats.
std::optional<Constant> evaluate(const OpData& data, const std::vector<const Constant*>& operands,
                                 const Type& result) {
  auto out = std::visit([&](const auto& op) { return evaluate_op(op, operands, result); }, data);
  // A constant must not be NaN (constant.c4), so an op whose result contains NaN is kept.
  if (out && std::any_of(out->values.begin(), out->values.end(),
                         [](double value) { return std::isnan(value); }))
    return std::nullopt;
  return out;
}

// True if `x fn operand` (or, unless `is_right`, `operand fn x`) is x. Ignores that −0 + 0 is +0.
bool is_neutral(const Builder& b, BinaryFn fn, ValueId operand, bool is_right) {
  const auto* constant = b.shard().producer_as<Constant>(operand);
  if (!constant) return false;
  switch (fn) {
    case BinaryFn::add:
      return is_splat_of(*constant, 0);
    case BinaryFn::sub:
      return is_right && is_splat_of(*constant, 0);
    case BinaryFn::mul:
      return is_splat_of(*constant, 1);
    case BinaryFn::div:
      return is_right && is_splat_of(*constant, 1);
    case BinaryFn::max:
    case BinaryFn::min:
      return false;
  }
  return false;
}

// True if the axes with sizes other than 1 keep their order, so that the transpose moves no
// element.
bool moves_only_ones(const std::vector<int64_t>& perm, const Dims& dims) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (dims.at(axis) == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// simplify(op, operands, result type) returns a value that replaces the op, or is empty.
class Simplifier {
 public:
  explicit Simplifier(Builder& b) : b_(b) {}

  std::optional<ValueId> operator()(const OpData& data, const std::vector<ValueId>& operands,
                                    const Type& result) {
    if (auto constant = fold(data, operands, result)) return constant;
    return std::visit([&](const auto& op) { return simplify(op, operands, result); }, data);
  }

 private:
  std::optional<ValueId> fold(const OpData& data, const std::vector<ValueId>& operands,
                              const Type& result) {
    if (operands.empty() || result.elements() > kMaxFoldedElements) return std::nullopt;
    std::vector<const Constant*> constants;
    for (ValueId operand : operands) {
      constants.push_back(b_.shard().producer_as<Constant>(operand));
      if (!constants.back()) return std::nullopt;
    }
    auto folded = evaluate(data, constants, result);
    if (!folded) return std::nullopt;
    return b_.emit(std::move(*folded), {});
  }

  // Ops that are never the identity.
  std::optional<ValueId> simplify(
      const InGroup<OpGroup::composite, OpGroup::source, OpGroup::contraction, OpGroup::along_axis,
                    OpGroup::state> auto&,
      const std::vector<ValueId>&, const Type&) {
    return std::nullopt;
  }
  std::optional<ValueId> simplify(const OneOf<Unary, Compare, Select> auto&,
                                  const std::vector<ValueId>&, const Type&) {
    return std::nullopt;
  }

  std::optional<ValueId> unchanged(ValueId x, const Type& result) {
    if (b_.type(x) == result) return x;
    return std::nullopt;
  }

  std::optional<ValueId> simplify(const Binary& op, const std::vector<ValueId>& operands,
                                  const Type& result) {
    if (is_neutral(b_, op.fn, operands[1], true)) return unchanged(operands[0], result);
    if (is_neutral(b_, op.fn, operands[0], false)) return unchanged(operands[1], result);
    return std::nullopt;
  }

  std::optional<ValueId> simplify(const Cast&, const std::vector<ValueId>& operands,
                                  const Type& result) {
    return unchanged(operands[0], result);
  }

  std::optional<ValueId> simplify(const Slice&, const std::vector<ValueId>& operands,
                                  const Type& result) {
    return unchanged(operands[0], result);
  }

  std::optional<ValueId> simplify(const Concat&, const std::vector<ValueId>& operands,
                                  const Type&) {
    if (operands.size() == 1) return operands[0];
    return std::nullopt;
  }

  std::optional<ValueId> simplify(const Reshape& op, const std::vector<ValueId>& operands,
                                  const Type& result) {
    ValueId source = operands[0];
    if (b_.shard().producer_as<Reshape>(source))
      source = b_.shard().ops[b_.shard().values[source].producer].operands[0];
    if (auto same = unchanged(source, result)) return same;
    if (source == operands[0]) return std::nullopt;
    return b_.emit(op, {source});
  }

  std::optional<ValueId> simplify(const Transpose& op, const std::vector<ValueId>& operands,
                                  const Type& result) {
    ValueId source = operands[0];
    std::vector<int64_t> perm = op.perm;
    if (const auto* inner = b_.shard().producer_as<Transpose>(source)) {
      for (int64_t& axis : perm) axis = at(inner->perm, axis);
      source = b_.shard().ops[b_.shard().values[source].producer].operands[0];
    }
    if (is_identity(perm) && b_.type(source) == result) return source;
    if (moves_only_ones(perm, b_.type(source).dims)) {
      const Reshape reshape{result.dims, result.layout};
      if (auto simpler = simplify(reshape, {source}, result)) return simpler;
      return b_.emit(reshape, {source});
    }
    if (source == operands[0]) return std::nullopt;
    return b_.emit(Transpose{std::move(perm), op.layout}, {source});
  }

  Builder& b_;
};

}  // namespace

Result<Shard> fold_constants(const Shard& shard, PassContext&) {
  Rewriter rewriter(shard);
  Simplifier simplify(rewriter.build());
  for (OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    std::optional<ValueId> simpler;
    if (op.results.size() == 1)
      simpler = simplify(op.data, rewriter(op.operands), shard.type(op.results[0]));
    if (simpler)
      rewriter.replace(id, {*simpler});
    else
      rewriter.copy(id);
  }
  return rewriter.finish();
}

}  // namespace moec
