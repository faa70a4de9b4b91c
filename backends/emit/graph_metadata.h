// The moec.* metadata of a graph file: what readers need in addition to the graph. Keys are in
// backends/emit/metadata_keys.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/shard.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_owner.h"

namespace moec {

struct GraphMetadata {
  std::string shard;                                       // empty: not stated
  std::vector<uint32_t> sources;                           // ascending op positions
  std::map<std::string, Layout, std::less<>> layouts;      // by tensor name
  std::map<std::string, std::string, std::less<>> labels;  // IR label by tensor name
  std::optional<WeightOwners> owners;                      // of the weights
};

// Adds the entry with this key. Keys that are not those of `function` are ignored, because other
// tools may add entries. `code` is the code of the error, such as onnx.metadata.
Status add_entry(std::string_view key, const std::string& text, const std::string& function,
                 const std::string& code, GraphMetadata& metadata);

// The name of a value's tensor.
using TensorName = std::function<std::string(ValueId)>;

// The text of kLayoutsEntry: the layouts that the graph cannot express, one value per line.
std::string layout_lines(const Shard& shard, const TensorName& name);
// The text of kNamesEntry: labels that differ from those that a reader assumes, because most do
// not.
std::string label_lines(const Shard& shard, const TensorName& name, const TensorName& assumed);

// Gives the values of a file that is read names that are legal and unique in the IR.
class IrNames {
 public:
  // The label with characters that the IR does not accept replaced by '_'; empty for a number,
  // which labels an unnamed value.
  static std::string legal(std::string label);
  // Distinct tensors may give equal names, so a name in use gets a suffix.
  std::string claim(const std::string& label);

 private:
  std::unordered_set<std::string> names_;
};

}  // namespace moec
