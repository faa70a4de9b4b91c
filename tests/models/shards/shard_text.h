// A built shard's inputs and weights as text, for comparison.
#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "ir/graph/shard.h"

namespace moec {

// "x f32[1,8,4,1]{channels}" of each input, in order.
inline std::vector<std::string> input_texts(const Shard& shard) {
  std::vector<std::string> all;
  for (ValueId id : shard.inputs) all.push_back(shard.label(id) + " " + to_string(shard.type(id)));
  return all;
}

// The view of each weight, by the label of its value.
inline std::map<std::string, std::string> views(const Shard& shard) {
  std::map<std::string, std::string> all;
  for (const Op& op : shard.ops)
    if (const auto* weight = std::get_if<Weight>(&op.data))
      all[shard.label(op.results[0])] = to_string(weight->view);
  return all;
}

}  // namespace moec
