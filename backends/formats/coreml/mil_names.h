// Assigns identifiers in a MIL function. Inputs, states, values and consts share one name space.
#pragma once

#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

// True if MIL accepts the name: [A-Za-z_][A-Za-z0-9_]*, and not a keyword of MIL's text form
// (coremltools, NameSanitizer in mil/passes/defs/preprocess.py).
bool is_mil_name(std::string_view name);

// Returns the name of each op in Core ML's compute plan: that of its output, or "write_state
// STATE"; empty for weights and constants.
IdMap<OpId, std::string> mil_op_names(const Shard& shard);

class MilNames {
 public:
  // Port and state names must be MIL names and distinct.
  explicit MilNames(const Shard& shard);

  const std::string& value(ValueId id) const { return values_[id]; }
  // Returns an unused name: `wanted`, or `wanted` with a suffix if `wanted` is in use.
  std::string fresh(const std::string& wanted);
  // Outputs that need an identity op to get their port name, because their value is an input, a
  // source, or also another output.
  const std::vector<Output>& copies() const { return copies_; }

 private:
  void name_outputs();

  const Shard& shard_;
  std::unordered_set<std::string> taken_;
  IdMap<ValueId, std::string> values_;
  std::vector<Output> copies_;
};

}  // namespace moec
