// The names of a shard's values and ops in a graph of ONNX or TFLite. Values, inputs, outputs and
// sources share one name space. The names are chosen to be readable in viewers:
//   inputs, outputs   their port names
//   weights           the checkpoint tensor, if the view covers the whole tensor
//   other values      their label in the IR ("experts.3.h", "12")
//   nodes             the shard and the value as a path: "L00/moe/experts.3/h"
// A name that is in use gets a suffix.
#pragma once

#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

class GraphNames {
 public:
  explicit GraphNames(const Shard& shard);

  const std::string& tensor(ValueId value) const { return tensors_[value]; }
  std::string node(OpId op);
  // Returns an unused tensor name: `wanted`, or `wanted` with a suffix if `wanted` is in use.
  std::string fresh(const std::string& wanted) { return claim(tensor_names_, wanted); }
  // Returns an unused node name under the shard's path.
  std::string fresh_node(std::string_view last);

  // Outputs that need a copying node to get their port name, because their value is an input, a
  // source, or also another output.
  const std::vector<Output>& copies() const { return copies_; }

 private:
  using NameSet = std::unordered_set<std::string>;
  static std::string claim(NameSet& taken, const std::string& wanted);
  void name_outputs();
  void name_others();
  std::string wanted_name(ValueId value) const;

  const Shard& shard_;
  std::string shard_path_;
  NameSet tensor_names_, node_names_;
  IdMap<ValueId, std::string> tensors_;
  std::vector<Output> copies_;
};

// "experts.3.gate" → "experts.3/gate": a number stays joined to the word before it.
std::string netron_path(std::string_view dotted);

}  // namespace moec
