// Identifiers of a MIL function. Inputs, states, values and consts share one name space.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

// Whether MIL accepts the name: [A-Za-z_][A-Za-z0-9_]* and no word of MIL's text form (coremltools,
// NameSanitizer in mil/passes/defs/preprocess.py).
bool is_mil_name(std::string_view name);

// The name that each op that computes has in a package: its output, or "write_state STATE"; empty
// for weights and constants. As Core ML's compute plan names them.
IdMap<OpId, std::string> mil_op_names(const Shard& shard);

class MilNames {
 public:
  // Port and state names must be MIL names and distinct.
  explicit MilNames(const Shard& shard);

  const std::string& value(ValueId id) const { return values_[id]; }
  // A fresh name, `wanted` if it is free.
  std::string fresh(const std::string& wanted);
  // Outputs that need an op of their own to have their port name: they pass on an input, a source,
  // or a value that another output has already.
  const std::vector<Output>& copies() const { return copies_; }

 private:
  void name_outputs();

  const Shard& shard_;
  std::unordered_set<std::string> taken_;
  IdMap<ValueId, std::string> values_;
  std::vector<Output> copies_;
};

}  // namespace moec
