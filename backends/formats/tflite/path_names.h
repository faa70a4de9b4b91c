// The names of a subgraph's tensors: ports and sources as in GraphNames, results of ops by their
// path ("L00/moe/experts.3/h"), by which viewers nest them. TFLite's ops have no names.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

class PathNames {
 public:
  explicit PathNames(const Shard& shard);

  const std::string& of(ValueId value) const { return names_[value]; }
  // Outputs that need a tensor of their own, with the name of the output (GraphNames::copies).
  const std::vector<Output>& copies() const { return copies_; }

 private:
  IdMap<ValueId, std::string> names_;
  std::vector<Output> copies_;
};

// The IR label of a tensor: the inverse of its path, "experts.3.h". `shard` is the shard's name.
std::string label_of_tensor(const std::string& shard, const std::string& tensor);

// Returns the name of the tensor that each op computes; empty for ops without an operator.
IdMap<OpId, std::string> tflite_op_names(const Shard& shard);

}  // namespace moec
