// The names of a shard's values and ops in an ONNX graph, where values, inputs, outputs and
// initializers share one name space. They are chosen for people who look at the graph:
//   inputs, outputs   their port names
//   weights           the checkpoint tensor where the view is that whole tensor
//   other values      their label in the IR ("experts.3.h", "12")
//   nodes             the shard and the value as a path: "L00/moe/experts.3/h"
// A name that is taken gets a suffix.
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
  // A fresh tensor name, `wanted` if it is free.
  std::string fresh(const std::string& wanted) { return claim(tensor_names_, wanted); }
  // A fresh node name under the shard's path.
  std::string fresh_node(std::string_view last);

  // Outputs that need a node of their own to have their port name: they pass on an input, a source,
  // or a value that another output has already.
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

// Whether the op is an initializer of the graph. A splat of several elements is none: it becomes an
// Expand of a scalar, which takes no space in the file.
bool is_initializer(const OpData& data);

// The names of the nodes of a graph, by op of the shard; empty for ops without a node of their own.
IdMap<OpId, std::string> onnx_op_names(const Shard& shard);

// "experts.3.gate" → "experts.3/gate": a number stays with the word before it.
std::string netron_path(std::string_view dotted);

}  // namespace moec
