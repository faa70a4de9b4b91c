// The implementation of infer(): one infer_op() per op of ops.def, defined in the infer_*.cc file
// of its kind, and shared helpers.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ir/graph/inferred.h"
#include "ir/graph/ops.h"
#include "ir/graph/shown.h"

namespace moec::inference {

// Collects the violations of one op. `code` is the constraint's id in ir/OPS.md. Each check returns
// true if its requirement holds.
class Check {
 public:
  Check(std::span<const Type> operands, const StateLookup& state_type)
      : operands(operands), state_type(state_type) {}

  template <class... Args>
  bool require(bool condition, std::string_view code, fmt::format_string<Args...> message,
               Args&&... args) {
    if (!condition)
      out.violations.push_back(
          {std::string(code), fmt::format(message, std::forward<Args>(args)...)});
    return condition;
  }

  bool count(std::string_view code, size_t least, size_t most) {
    const size_t got = operands.size();
    if (least == most)
      return require(got == least, code, "requires {} operands, got {}", least, got);
    return require(got >= least && got <= most, code, "requires {} to {} operands, got {}", least,
                   most, got);
  }
  bool count(std::string_view code, size_t exactly) { return count(code, exactly, exactly); }

  bool float_operands(std::string_view code) {
    bool good = true;
    for (const Type& type : operands)
      good &= require(is_float(type.dtype) && type.dtype == operands[0].dtype, code,
                      "operands must be of one float type, got {}", shown(type));
    return good;
  }

  bool token_operand(std::string_view code, size_t index) {
    return require(operands[index].layout != Layout::plain, code,
                   "operand {} must be a token tensor (rows or channels), got {}", index,
                   shown(operands[index]));
  }

  bool has_dims(std::string_view code, size_t index, const Dims& dims) {
    return require(operands[index].dims == dims, code, "operand {} must have sizes {}, got {}",
                   index, shown(dims), shown(operands[index]));
  }

  bool axis(std::string_view code, int64_t axis_value, size_t rank) {
    return require(axis_value >= 0 && axis_value < static_cast<int64_t>(rank), code,
                   "axis {} is outside rank {}", axis_value, rank);
  }

  bool same_token_shape(std::string_view code, size_t a, size_t b) {
    return require(operands[a].layout == operands[b].layout &&
                       tokens_of(operands[a]) == tokens_of(operands[b]),
                   code, "operands {} and {} must agree in layout and tokens: {} and {}", a, b,
                   shown(operands[a]), shown(operands[b]));
  }

  Inferred result(Type type) {
    out.results.push_back(std::move(type));
    return std::move(out);
  }
  Inferred failed() { return std::move(out); }

  std::span<const Type> operands;
  const StateLookup& state_type;
  Inferred out;
};

// The type `token` with another number of channels.
Type with_channels(const Type& token, int64_t channels);

// Returns the broadcast sizes; empty if the sizes do not broadcast. Sizes broadcast if one side is
// a scalar, or if ranks are equal and each pair of sizes is equal or contains a 1.
std::optional<Dims> broadcast(const Dims& a, const Dims& b);

#define MOEC_OP(Struct, ...) Inferred infer_op(const Struct& op, Check& check);
#include "ir/graph/ops.def"

}  // namespace moec::inference
