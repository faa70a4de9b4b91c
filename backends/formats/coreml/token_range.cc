#include "backends/formats/coreml/token_range.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/base/invariant.h"
#include "ir/text/text.h"

namespace moec {
namespace {

// Finds the reason why an op cannot serve both widths. An op with equal attributes always can. A
// reshape may have one size that depends on the width, because Core ML infers it from the others. A
// slice may extend to the end of an axis that depends on the width.
class OpRange {
 public:
  OpRange(const Shard& least, const Shard& larger, OpId op)
      : least_(least), larger_(larger), a_(least.ops[op]), b_(larger.ops[op]) {}

  // Returns the reason, or an empty text. Ids number the values in order, so equal ids mean equal
  // positions in the two shards.
  std::string refusal() const {
    if (a_.data.index() != b_.data.index() || a_.operands != b_.operands ||
        a_.results != b_.results)
      return "the widths have different ops";
    for (ValueId result : a_.results)
      if (std::string cause = of_result(result); !cause.empty()) return cause;
    return std::visit([&](const auto& data) { return of(data); }, a_.data);
  }

 private:
  std::string of_result(ValueId result) const {
    const Type& a = least_.type(result);
    const Type& b = larger_.type(result);
    if (a.dtype == b.dtype && a.layout == b.layout && a.rank() == b.rank() &&
        least_.values[result].name == larger_.values[result].name)
      return {};
    return "the widths differ in more than sizes";
  }
  // A new op with sized attributes does not compile until it has an overload here.
  template <FixedOp OpT>
  std::string of(const OpT& data) const {
    return data == std::get<OpT>(b_.data) ? std::string() : "an attribute depends on the width";
  }
  std::string of(const Reshape& data) const {
    const Dims dims = range_dims(data.dims, std::get<Reshape>(b_.data).dims);
    return std::count(dims.begin(), dims.end(), -1) <= 1 ? std::string()
                                                         : "two sizes depend on the width";
  }
  std::string of(const Slice& data) const {
    const auto& other = std::get<Slice>(b_.data);
    if (data.axis != other.axis || data.begin != other.begin)
      return "the slice begins at different indices";
    // If both slices extend to the end, the writer states the size as −1, which means "to the end".
    const bool both_end = to_end(least_, a_, data) && to_end(larger_, b_, other);
    const bool fixed = data.size == other.size;
    return fixed || both_end ? std::string() : "the size of the slice depends on the width";
  }
  // True if the slice extends to the end of its axis.
  static bool to_end(const Shard& shard, const Op& op, const Slice& slice) {
    return slice.begin + slice.size == shard.type(op.operands.front()).dims.at(slice.axis);
  }

  const Shard& least_;
  const Shard& larger_;
  const Op& a_;
  const Op& b_;
};

tl::unexpected<Diagnostics> refuse(const Shard& shard, std::string op, std::string_view cause) {
  return fail("coreml.range", fmt::format("one program cannot serve all widths: {}", cause),
              "pass --widths separate or --widths functions",
              {.shard = shard.name, .op = std::move(op)});
}

// Sizes may differ, but everything by which a runtime binds a port must be equal.
bool same_ports(const Shard& a, const Shard& b) {
  if (a.inputs != b.inputs || a.outputs != b.outputs || a.states != b.states) return false;
  return std::all_of(a.inputs.begin(), a.inputs.end(), [&](ValueId input) {
    const Type& x = a.type(input);
    const Type& y = b.type(input);
    return a.values[input].name == b.values[input].name && x.dtype == y.dtype &&
           x.layout == y.layout && x.rank() == y.rank();
  });
}

}  // namespace

// -1 marks the sizes that depend on the width, as in MIL's reshape.
Dims range_dims(const Dims& least, const Dims& largest) {
  MOEC_CHECK(least.size() == largest.size(), "{} and {} are not a range", to_string(least),
             to_string(largest));
  Dims dims = least;
  for (size_t i = 0; i < dims.size(); ++i)
    if (least[i] != largest[i]) dims[i] = -1;
  return dims;
}

Status check_range(const Shard& least, const Shard& larger) {
  if (!same_ports(least, larger))
    return refuse(least, {}, "the widths have different ports or states");
  if (least.ops.size() != larger.ops.size())
    return refuse(
        least, {},
        fmt::format("the widths have {} and {} ops", least.ops.size(), larger.ops.size()));
  for (OpId op : op_ids(least))
    if (const std::string cause = OpRange(least, larger, op).refusal(); !cause.empty())
      return refuse(least, op_label(least, op), cause);
  return {};
}

}  // namespace moec
