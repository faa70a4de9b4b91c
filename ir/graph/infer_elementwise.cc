#include "ir/graph/infer_op.h"

namespace moec::inference {
struct Joined {
  bool good = false;
  Dims dims;
  Layout layout = Layout::plain;
};

// Broadcasting compares sizes only. Operands in two token layouts might broadcast by their sizes
// and pair a token of one with a channel of the other, so they are refused.
static Joined join_shapes(Check& check, std::string_view code) {
  Joined joined{true, check.operands[0].dims, check.operands[0].layout};
  for (const Type& type : check.operands.subspan(1)) {
    auto dims = broadcast(joined.dims, type.dims);
    if (!check.require(dims.has_value(), code, "sizes {} and {} do not broadcast",
                       shown(joined.dims), shown(type.dims)))
      return {};
    joined.dims = *dims;
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

}  // namespace moec::inference
