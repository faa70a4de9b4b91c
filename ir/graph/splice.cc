#include "ir/graph/splice.h"

#include <fmt/format.h>

#include "ir/base/invariant.h"

namespace moec {
namespace {

using ValueMap = IdMap<ValueId, ValueId>;

ValueMap map_inputs(const Builder& b, const Shard& part, const std::vector<ValueId>& inputs) {
  MOEC_CHECK(part.states.empty(), "shard {} has states, which a part cannot have", part.name);
  MOEC_CHECK(part.form == b.shard().form, "shard {} is in another form than the whole", part.name);
  MOEC_CHECK(inputs.size() == part.inputs.size(), "shard {} has {} inputs, {} were given",
             part.name, part.inputs.size(), inputs.size());
  ValueMap map(part.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId input = part.inputs[i];
    MOEC_CHECK(b.type(inputs[i]) == part.type(input), "input {} of shard {} is given another type",
               part.label(input), part.name);
    map[input] = inputs[i];
  }
  return map;
}

std::vector<ValueId> mapped(const ValueMap& map, const std::vector<ValueId>& values) {
  std::vector<ValueId> found;
  for (ValueId value : values) found.push_back(map[value]);
  return found;
}

}  // namespace

std::vector<ValueId> splice(Builder& b, const Shard& part, const std::vector<ValueId>& inputs,
                            std::string_view scope) {
  ValueMap map = map_inputs(b, part, inputs);
  for (const Op& op : part.ops) {
    const std::vector<ValueId> results = b.emit_all(op.data, mapped(map, op.operands));
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string& name = part.values[op.results[i]].name;
      if (!name.empty()) b.name_if_unnamed(results[i], fmt::format("{}.{}", scope, name));
      map[op.results[i]] = results[i];
    }
  }
  std::vector<ValueId> outputs;
  for (const Output& output : part.outputs) outputs.push_back(map[output.value]);
  return outputs;
}

}  // namespace moec
