// Joins shards: appends the ops of one shard to another that is being built.
#pragma once

#include <string_view>
#include <vector>

#include "ir/graph/builder.h"

namespace moec {

// Appends the ops of `part`, which has no states and the builder's form. inputs[i] stands for
// part.inputs[i] and has its type. Names get the prefix "SCOPE.", which keeps those of several
// parts apart. Returns the values of part.outputs, in order.
std::vector<ValueId> splice(Builder& b, const Shard& part, const std::vector<ValueId>& inputs,
                            std::string_view scope);

}  // namespace moec
