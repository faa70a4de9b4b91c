#include "backends/formats/tflite/path_names.h"

#include <algorithm>

#include "backends/emit/graph_names.h"
#include "backends/formats/tflite/fused_forms.h"

namespace moec {

PathNames::PathNames(const Shard& shard) : names_(shard.values.size()) {
  GraphNames graph(shard);
  copies_ = graph.copies();
  for (const ValueId input : shard.inputs) names_[input] = graph.tensor(input);
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    for (const ValueId value : op.results) {
      const bool first = value == op.results.front();
      names_[value] = is_source(op.data) ? graph.tensor(value)
                      : first            ? graph.node(id)
                                         : graph.fresh_node(netron_path(shard.label(value)));
    }
  }
}

std::string label_of_tensor(const std::string& shard, const std::string& tensor) {
  const std::string path = netron_path(shard) + "/";
  if (!tensor.starts_with(path)) return tensor;
  std::string label = tensor.substr(path.size());
  std::replace(label.begin(), label.end(), '/', '.');
  return label;
}

IdMap<OpId, std::string> tflite_op_names(const Shard& shard) {
  const PathNames names(shard);
  const IdMap<OpId, uint8_t> needed = needed_ops(shard);
  IdMap<OpId, std::string> results(shard.ops.size());
  for (const OpId id : op_ids(shard)) {
    const Op& op = shard.ops[id];
    if (needed[id] && !is_source(op.data)) results[id] = names.of(op.results.front());
  }
  return results;
}

}  // namespace moec
