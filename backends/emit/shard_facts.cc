#include "backends/emit/shard_facts.h"

#include <fmt/format.h>

#include "ir/verify/verify.h"

namespace moec {
namespace {

// True if an attribute of the op fixes the layout of its result; false if the layouts of its
// results follow from its operands.
bool chooses_layout(const auto& op) {
  constexpr bool is_own = requires { op.layout; };
  constexpr bool is_of_type = requires { op.type.layout; };
  return is_own || is_of_type;
}

// True if the value is in the range of the element type. Floats always are, because they are
// rounded.
bool holds(DType dtype, double value) {
  if (is_float(dtype)) return true;
  if (dtype == DType::boolean) return value == 0 || value == 1;
  if (dtype == DType::u8) return value >= 0 && value <= 255;
  // 2^63 - 1 is not a double, so the upper bound is exclusive.
  const double limit = dtype == DType::i32 ? 0x1p31 : 0x1p63;
  return value >= -limit && value < limit;
}

// True if `dims` is `inner` with leading sizes of 1.
bool has_ones_in_front(const Dims& inner, const Dims& dims) {
  const int64_t ones = dims.rank() - inner.rank();
  for (int64_t axis = 0; axis < dims.rank(); ++axis)
    if (dims.at(axis) != (axis < ones ? 1 : inner.at(axis - ones))) return false;
  return ones >= 0;
}

}  // namespace

Status check_placed(const Shard& shard) {
  // Emitters rely on form placed and on the invariants that verify() checks.
  if (shard.form != Form::placed)
    return fail("emit.form",
                fmt::format("the shard is in form {}, expected form placed", form_name(shard.form)),
                "run the pass `place` last", {.shard = shard.name});
  if (Diagnostics findings = verify(shard); has_error(findings)) return fail(std::move(findings));
  return {};
}

Status check_stateless(const Shard& shard, std::string_view format) {
  if (shard.states.empty()) return {};
  return fail("emit.state",
              fmt::format("state \"{}\" has no {} form: {} models are stateless",
                          shard.states.front().name, format, format),
              "build the shard with explicit cache inputs (cache form append)",
              {.shard = shard.name});
}

Place place_of(const Shard& shard, const Op& op) {
  Place place{.shard = shard.name};
  if (!op.results.empty()) place.op = shard.label(op.results.front());
  return place;
}

Status check_constants(const Shard& shard) {
  for (const Op& op : shard.ops)
    if (const auto* constant = std::get_if<Constant>(&op.data))
      for (double value : constant->values)
        if (!holds(constant->type.dtype, value))
          return fail("emit.constant",
                      fmt::format("{} is out of range for element type {}", value,
                                  dtype_name(constant->type.dtype)),
                      "use another element type for the constant", place_of(shard, op));
  return {};
}

bool states_layout(const Shard& shard, ValueId value) {
  const OpId producer = shard.values[value].producer;
  return !producer.valid() ||
         std::visit([](const auto& op) { return chooses_layout(op); }, shard.ops[producer].data);
}

bool is_row_to_column(const Op& op) {
  const auto* transpose = std::get_if<Transpose>(&op.data);
  return transpose && transpose->perm == std::vector<int64_t>{1, 0};
}

// The recursion ends at the transpose: a reshape is followed to its operand.
ValueId turned_weight(const Shard& shard, ValueId value) {
  const OpId producer = shard.values[value].producer;
  if (!producer.valid()) return {};
  const Op& op = shard.ops[producer];
  if (is_row_to_column(op))
    return shard.producer_as<Weight>(op.operands.front()) ? op.operands.front() : ValueId{};
  const bool widens =
      std::holds_alternative<Reshape>(op.data) &&
      has_ones_in_front(shard.type(op.operands.front()).dims, shard.type(value).dims);
  return widens ? turned_weight(shard, op.operands.front()) : ValueId{};
}

std::string describe_file(const Shard& shard, const std::string& family) {
  return family.empty() ? "Static shard " + shard.name
                        : "Static shard " + shard.name + " of a " + family + " model";
}

}  // namespace moec
