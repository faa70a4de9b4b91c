#include <optional>

#include "ir/base/at.h"
#include "ir/graph/permutation.h"
#include "ir/graph/rewriter.h"
#include "passes/constant_math.h"
#include "passes/passes.h"

namespace moec {
namespace {

// Whether `x fn operand` (or `operand fn x`) is x. Of x = −0 the sum with 0 would be +0; this
// difference is accepted.
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

// Whether the axes of a size other than 1 keep their order. Such a transpose moves no element.
bool moves_only_ones(const std::vector<int64_t>& perm, const Dims& dims) {
  int64_t last = -1;
  for (int64_t axis : perm) {
    if (dims.at(axis) == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

// simplify(op, operands, result type): the value that the op can be replaced by, or nothing.
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
      const OneOf<Attention, GatedMlp, RmsNorm, Router, SoftMoe, Linear, Weight, Constant, Conv,
                  MatMul, Unary, Compare, Select, Reduce, Softmax, TopK, StateRead,
                  StateWrite> auto&,
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
