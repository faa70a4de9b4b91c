#include <cmath>

#include "ir/graph/infer_op.h"
#include "ir/graph/stored_codes.h"

namespace moec::inference {
// ---- Sources -----------------------------------------------------------------------------------

Inferred infer_op(const Weight& op, Check& check) {
  if (!check.count("weight.c1", 0)) return check.failed();
  auto type = view_type(op.view);
  if (!check.require(type.has_value(), "weight.c2", "{}",
                     type ? std::string() : type.error().front().cause))
    return check.failed();
  // Findings of check_encoding() keep their codes.
  const Status encoding = check_encoding(op.encoding, *type);
  if (!encoding) {
    const Diagnostic& finding = encoding.error().front();
    check.require(false, finding.code, "{}", finding.cause);
    return check.failed();
  }
  const auto* affine = std::get_if<AffineEncoding>(&op.encoding);
  if (affine && affine->copied) {
    // A copied encoding describes the stored codes, so it must equal what the view decodes.
    const auto stored = stored_codes(op.view);
    if (!check.require(stored && stored->encoding == *affine, "weight.c6",
                       "the view does not decode codes in the blocks of {}",
                       to_string(op.encoding)))
      return check.failed();
  }
  return check.result(*type);
}

// True if the element type can represent the value. NaN is rejected: it has no text form, and NaN
// != NaN would make equal shards compare as different.
static bool holds(DType dtype, double value) {
  if (is_float(dtype)) return !std::isnan(value);
  return std::isfinite(value) && value == std::trunc(value);
}

Inferred infer_op(const Constant& op, Check& check) {
  if (!check.count("constant.c1", 0)) return check.failed();
  auto elements = checked_elements(op.type.dims);
  if (!check.require(elements && op.type.rank() <= kMaxRank, "constant.c2",
                     "sizes {} must be positive and at most {} of them", shown(op.type.dims),
                     kMaxRank))
    return check.failed();
  const auto given = std::ssize(op.values);
  // A single value stands for all elements.
  if (!check.require(given == 1 || given == *elements, "constant.c3",
                     "needs 1 value or {} values, got {}", *elements, given))
    return check.failed();
  for (double value : op.values)
    if (!check.require(holds(op.type.dtype, value), "constant.c4", "{} is not a value of type {}",
                       value, dtype_name(op.type.dtype)))
      return check.failed();
  return check.result(op.type);
}

// ---- State -------------------------------------------------------------------------------------

static const Type* declared_state(Check& check, std::string_view code, const std::string& name) {
  // Reports a missing state for both callers, which then only return.
  const Type* type = check.state_type(name);
  check.require(type != nullptr, code, "no state named \"{}\" is declared", name);
  return type;
}

Inferred infer_op(const StateRead& op, Check& check) {
  if (!check.count("state_read.c1", 0)) return check.failed();
  const Type* type = declared_state(check, "state_read.c2", op.state);
  return type ? check.result(*type) : check.failed();
}

Inferred infer_op(const StateWrite& op, Check& check) {
  if (!check.count("state_write.c1", 1)) return check.failed();
  const Type* type = declared_state(check, "state_write.c2", op.state);
  if (type)
    check.require(check.operands[0] == *type, "state_write.c3", "state \"{}\" holds {}, got {}",
                  op.state, shown(*type), shown(check.operands[0]));
  return check.failed();  // no results
}

}  // namespace moec::inference
