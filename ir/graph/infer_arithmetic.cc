#include "ir/graph/infer_op.h"

namespace moec::inference {
struct Joined {
  bool good = false;
  Dims dims;
  Layout layout = Layout::plain;
};

// Broadcasting compares sizes only. Operands in different token layouts are rejected, because sizes
// that match by coincidence would pair tokens with channels.
static Joined join_shapes(Check& check, std::string_view code) {
  Joined joined{true, check.operands[0].dims, check.operands[0].layout};
  for (const Type& type : check.operands.subspan(1)) {
    auto dims = broadcast(joined.dims, type.dims);
    if (!check.require(dims.has_value(), code, "sizes {} and {} do not broadcast",
                       shown(joined.dims), shown(type.dims)))
      return {};
    joined.dims = *dims;
    // A plain operand is compatible with every layout; its sizes have been compared above.
    if (type.layout == Layout::plain) continue;
    if (!check.require(joined.layout == Layout::plain || joined.layout == type.layout, code,
                       "layouts {} and {} cannot be combined", layout_name(joined.layout),
                       layout_name(type.layout)))
      return {};
    joined.layout = type.layout;
  }
  return joined;
}

Inferred infer_op(const Unary&, Check& check) {
  if (!check.count("unary.c1", 1) || !check.float_operands("unary.c2")) return check.failed();
  return check.result(check.operands[0]);
}

Inferred infer_op(const Binary&, Check& check) {
  if (!check.count("binary.c1", 2) || !check.float_operands("binary.c2")) return check.failed();
  Joined joined = join_shapes(check, "binary.c3");
  if (!joined.good) return check.failed();
  // float_operands() has checked that all operands have the same element type.
  return check.result({check.operands[0].dtype, joined.dims, joined.layout});
}

Inferred infer_op(const Compare&, Check& check) {
  if (!check.count("compare.c1", 2)) return check.failed();
  const DType a = check.operands[0].dtype, b = check.operands[1].dtype;
  if (!check.require(a == b && a != DType::boolean, "compare.c2",
                     "operands must be of one number type, got {} and {}", dtype_name(a),
                     dtype_name(b)))
    return check.failed();
  Joined joined = join_shapes(check, "compare.c3");
  if (!joined.good) return check.failed();
  return check.result({DType::boolean, joined.dims, joined.layout});
}

Inferred infer_op(const Select&, Check& check) {
  if (!check.count("select.c1", 3)) return check.failed();
  const Type& a = check.operands[1];
  const Type& b = check.operands[2];
  bool good = check.require(check.operands[0].dtype == DType::boolean, "select.c2",
                            "the condition must be bool, got {}", shown(check.operands[0]));
  good &= check.require(a.dtype == b.dtype, "select.c3", "branches must be of one type: {} and {}",
                        shown(a), shown(b));
  Joined joined = join_shapes(check, "select.c4");
  if (!good || !joined.good) return check.failed();
  return check.result({a.dtype, joined.dims, joined.layout});
}

Inferred infer_op(const Cast& op, Check& check) {
  if (!check.count("cast.c1", 1)) return check.failed();
  Type type = check.operands[0];
  type.dtype = op.dtype;
  return check.result(std::move(type));
}

Inferred infer_op(const Conv& op, Check& check) {
  if (!check.count("conv.c1", 2, 3) || !check.float_operands("conv.c2")) return check.failed();
  const Type& x = check.operands[0];
  const Type& w = check.operands[1];
  // Tokens lie along kernel_axis: axis 3 in bc1s, else axis 2. Axis 5 - kernel_axis has length 1.
  const size_t kernel_axis = token_axis(x.layout);
  if (!check.require(is_channel_major(x.layout), "conv.c3",
                     "x must be in layout channels or bc1s, got {}", shown(x)) ||
      !check.require(w.rank() == 4 && w.dims[5 - kernel_axis] == 1, "conv.c4",
                     "weight must be [N, C/groups, K, 1], in bc1s [N, C/groups, 1, K], got {}",
                     shown(w)))
    return check.failed();
  const int64_t kernel = w.dims[kernel_axis];
  const int64_t channels = channels_of(x), outputs = w.dims[0];
  bool good = check.require(op.groups >= 1 && channels % op.groups == 0 && outputs % op.groups == 0,
                            "conv.c5", "groups {} must divide {} input and {} output channels",
                            op.groups, channels, outputs);
  good = good && check.require(w.dims[1] == channels / op.groups, "conv.c6",
                               "weight must have {} channels per group, got {}",
                               channels / op.groups, w.dims[1]);
  good &= check.require(kernel <= tokens_of(x), "conv.c7", "kernel {} is longer than {} tokens",
                        kernel, tokens_of(x));
  if (check.operands.size() == 3) good &= check.has_dims("conv.c8", 2, {outputs});
  if (!good) return check.failed();
  // The convolution has no padding, so it has kernel − 1 results fewer than tokens.
  return check.result(token_type(x.dtype, x.layout, outputs, tokens_of(x) - kernel + 1));
}

Inferred infer_op(const MatMul&, Check& check) {
  if (!check.count("matmul.c1", 2) || !check.float_operands("matmul.c2")) return check.failed();
  const Dims& a = check.operands[0].dims;
  const Dims& b = check.operands[1].dims;
  const size_t rank = a.size();
  if (!check.require(rank >= 2 && rank == b.size(), "matmul.c3",
                     "ranks must be equal and at least 2: {} and {}", shown(a), shown(b)))
    return check.failed();
  if (!check.require(a[rank - 1] == b[rank - 2], "matmul.c4", "inner sizes differ: {} and {}",
                     shown(a), shown(b)))
    return check.failed();
  auto batch = broadcast(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2));
  if (!check.require(batch.has_value(), "matmul.c5", "leading sizes do not broadcast: {} and {}",
                     shown(a), shown(b)))
    return check.failed();
  Type type{check.operands[0].dtype, *batch};
  type.dims.insert(type.dims.end(), {a[rank - 2], b[rank - 1]});
  // The rows of the product are the rows of a, so the layout of b does not matter.
  if (check.operands[0].layout == Layout::rows) type.layout = Layout::rows;
  return check.result(std::move(type));
}

}  // namespace moec::inference
