// Text of a built shard's inputs and weights, for comparisons.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

// Formats each input as "x f32[1,8,4,1]{channels}", in order.
inline std::vector<std::string> input_texts(const Shard& shard) {
  std::vector<std::string> all;
  for (ValueId id : shard.inputs) all.push_back(shard.label(id) + " " + to_string(shard.type(id)));
  return all;
}

// Maps the label of each weight to its view.
inline std::map<std::string, std::string> views(const Shard& shard) {
  std::map<std::string, std::string> all;
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data))
      all[shard.label(op.results[0])] = to_string(weight->view);
  return all;
}

}  // namespace moec
