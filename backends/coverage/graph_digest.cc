#include "backends/coverage/graph_digest.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "backends/files/digest.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

std::string digest_text(const std::string& text) {
  Digest digest;
  digest.update(std::as_bytes(std::span(text)));
  return digest.hex();
}

class GraphDigester {
 public:
  GraphDigester(const Shard& shard, const IdMap<OpId, OpRole>& roles)
      : shard_(shard), roles_(roles), values_(shard.values.size()) {}

  std::string digest() {
    for (ValueId input : shard_.inputs)
      values_[input] = fmt::format("input {} {}", shard_.values[input].name, type_of(input));
    std::vector<std::string> ends;
    for (OpId id : op_ids(shard_)) {
      if (!roles_[id].live) continue;
      const Op& op = shard_.ops[id];
      if (writes_state(op.data))
        ends.push_back(fmt::format("state {} {}", *state_of(op.data), values_[op.operands[0]]));
      for (size_t i = 0; i < op.results.size(); ++i) values_[op.results[i]] = of_result(id, i);
    }
    for (const Output& output : shard_.outputs)
      ends.push_back(fmt::format("output {} {}", output.name, values_[output.value]));
    // Outputs and states are identified by name, so their order does not matter.
    std::sort(ends.begin(), ends.end());
    return digest_text(fmt::format("{}", fmt::join(ends, "\n")));
  }

 private:
  std::string type_of(ValueId value) const { return to_string(shard_.type(value)); }

  std::string of_result(OpId id, size_t result) {
    const Op& op = shard_.ops[id];
    const ValueId value = op.results[result];
    if (std::holds_alternative<Weight>(op.data)) return of_weight(id);
    // A slice of the whole value is the identity. Formats encode it differently or omit it, so the
    // digest skips it.
    if (std::holds_alternative<Slice>(op.data) && shard_.type(op.operands[0]) == shard_.type(value))
      return values_[op.operands[0]];
    std::string text =
        fmt::format("{:016x} {} {}", hash_attributes(attributes(id)), result, type_of(value));
    for (ValueId operand : op.operands) text += " " + values_[operand];
    // Returns a digest instead of the text: the text of an expression can grow exponentially with
    // the depth of shared operands.
    return digest_text(text);
  }

  // An expert's weights are distinguished by their order: gate, up, down.
  std::string of_weight(OpId id) {
    const ValueId value = shard_.ops[id].results[0];
    const WeightShare& share = roles_[id].share;
    if (share.role == WeightRole::plain)
      return fmt::format("weight {} {}", shard_.values[value].name, type_of(value));
    const int part = parts_[{share.role, share.moe_layer, share.first}]++;
    return fmt::format("{} {} of {} along {} {}", enum_name(share.role), part, share.count,
                       share.axis, type_of(value));
  }

  // The attributes as they round-trip through files: constants rounded to the element type, and
  // all-equal values collapsed to one.
  OpData attributes(OpId id) const {
    OpData data = shard_.ops[id].data;
    // `begin` is the channel of an expert, and the digest must not depend on the experts' order.
    if (auto* slice = std::get_if<Slice>(&data); slice && roles_[id].narrows_routing)
      slice->begin = 0;
    if (auto* constant = std::get_if<Constant>(&data)) {
      std::vector<double>& values = constant->values;
      if (is_float(constant->type.dtype))
        for (double& value : values)
          value = round_to(constant->type.dtype, static_cast<float>(value));
      if (std::adjacent_find(values.begin(), values.end(), std::not_equal_to<>()) == values.end())
        values.resize(1);
    }
    return data;
  }

  const Shard& shard_;
  const IdMap<OpId, OpRole>& roles_;
  IdMap<ValueId, std::string> values_;
  std::map<std::tuple<WeightRole, size_t, int64_t>, int> parts_;
};

}  // namespace

std::string digest_graph(const Shard& shard, const IdMap<OpId, OpRole>& roles) {
  return GraphDigester(shard, roles).digest();
}

}  // namespace moec
