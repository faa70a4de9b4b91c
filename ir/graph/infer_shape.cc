#include "ir/graph/infer_op.h"
#include "ir/graph/type.h"

namespace moec::inference {
// ---- Along one axis ----------------------------------------------------------------------------

Inferred infer_op(const Reduce& op, Check& check) {
  if (!check.count("reduce.c1", 1) || !check.float_operands("reduce.c2") ||
      !check.axis("reduce.c3", op.axis, check.operands[0].rank()))
    return check.failed();
  Type type = check.operands[0];
  type.dims.at(op.axis) = 1;
  return check.result(std::move(type));
}

Inferred infer_op(const Softmax& op, Check& check) {
  if (!check.count("softmax.c1", 1) || !check.float_operands("softmax.c2") ||
      !check.axis("softmax.c3", op.axis, check.operands[0].rank()))
    return check.failed();
  return check.result(check.operands[0]);
}

Inferred infer_op(const TopK& op, Check& check) {
  if (!check.count("topk.c1", 1) || !check.float_operands("topk.c2") ||
      !check.axis("topk.c3", op.axis, check.operands[0].rank()))
    return check.failed();
  Type values = check.operands[0];
  if (!check.require(op.k >= 1 && op.k <= values.dims.at(op.axis), "topk.c4",
                     "k {} must be in [1, {}]", op.k, values.dims.at(op.axis)))
    return check.failed();
  values.dims.at(op.axis) = op.k;
  Type indices = values;
  indices.dtype = DType::i64;
  check.out.results.push_back(values);
  return check.result(std::move(indices));
}

// ---- Shape -------------------------------------------------------------------------------------

Inferred infer_op(const Slice& op, Check& check) {
  if (!check.count("slice.c1", 1) || !check.axis("slice.c2", op.axis, check.operands[0].rank()))
    return check.failed();
  Type type = check.operands[0];
  const int64_t extent = type.dims.at(op.axis);
  // Subtracts, because begin + size could overflow.
  if (!check.require(op.begin >= 0 && op.size >= 1 && op.begin <= extent - op.size, "slice.c3",
                     "[{}, {} + {}) is outside extent {}", op.begin, op.begin, op.size, extent))
    return check.failed();
  type.dims.at(op.axis) = op.size;
  return check.result(std::move(type));
}

Inferred infer_op(const Concat& op, Check& check) {
  if (!check.count("concat.c1", 1, 1u << 20) ||
      !check.axis("concat.c2", op.axis, check.operands[0].rank()))
    return check.failed();
  Type type = check.operands[0];
  for (const Type& part : check.operands.subspan(1)) {
    // The result has a single element type, layout and rank, so those of all parts must agree.
    bool good = check.require(
        part.dtype == type.dtype && part.layout == type.layout && part.rank() == type.rank(),
        "concat.c3", "parts must have the same type, layout and rank, got {} and {}", shown(type),
        shown(part));
    for (int64_t i = 0; good && i < part.rank(); ++i)
      good = check.require(i == op.axis || part.dims.at(i) == type.dims.at(i), "concat.c4",
                           "parts must have the same sizes except along axis {}, got {} and {}",
                           op.axis, shown(type), shown(part));
    if (!good) return check.failed();
    type.dims.at(op.axis) += part.dims.at(op.axis);
    // Checked after every part, so that the sum cannot overflow.
    if (!check.require(checked_elements(type.dims).has_value(), "concat.c5",
                       "{} would hold more than {} elements", shown(type), kMaxElements))
      return check.failed();
  }
  return check.result(std::move(type));
}

Inferred infer_op(const Reshape& op, Check& check) {
  if (!check.count("reshape.c1", 1)) return check.failed();
  auto elements = checked_elements(op.dims);
  bool good =
      check.require(elements && op.dims.size() <= kMaxRank, "reshape.c2",
                    "sizes {} must be positive and at most {} of them", shown(op.dims), kMaxRank);
  good = good && check.require(*elements == check.operands[0].elements(), "reshape.c3",
                               "{} does not hold the elements of {}", shown(op.dims),
                               shown(check.operands[0]));
  good = good && check.require(fits_layout(op.dims, op.layout), "reshape.c4",
                               "{} does not fit layout {}", shown(op.dims), layout_name(op.layout));
  if (!good) return check.failed();
  return check.result({check.operands[0].dtype, op.dims, op.layout});
}

Inferred infer_op(const Transpose& op, Check& check) {
  if (!check.count("transpose.c1", 1)) return check.failed();
  const Type& x = check.operands[0];
  if (!check.require(is_permutation(op.perm, x.rank()), "transpose.c2",
                     "{} is not a permutation of {} axes", shown(op.perm), x.rank()))
    return check.failed();
  Type type{x.dtype, {}, op.layout};
  for (int64_t axis : op.perm) type.dims.push_back(x.dims.at(axis));
  // The attribute `layout` of the op can contradict the sizes.
  if (!check.require(fits_layout(type.dims, op.layout), "transpose.c3", "{} does not fit layout {}",
                     shown(type.dims), layout_name(op.layout)))
    return check.failed();
  return check.result(std::move(type));
}

}  // namespace moec::inference
