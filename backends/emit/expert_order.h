// The order in which the weights of a shard lie in a data file. Usually that of the graph; a
// runtime that reads one expert at a time wants each expert's weights side by side.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/emit/moe_layers.h"

namespace moec {

// How experts lie in data files.
struct ExpertLayout {
  // A power of two from 64 on: each expert's weights lie together and begin at a multiple of it,
  // behind all other weights. 0: the order of the graph.
  uint64_t alignment = 0;
  std::optional<MoeLayers>
      layers;  // whose experts these are; without them, alignment has no effect
};

class ExpertOrder {
 public:
  ExpertOrder(const Shard& shard, const ExpertLayout& experts);

  // All ops, those with the weights of single experts last.
  const std::vector<OpId>& ops() const { return ops_; }
  // Call before the weight that this op makes is added to the layout.
  void begin(OpId op, DataLayout& layout);

 private:
  using Expert = std::pair<size_t, int64_t>;  // MoE layer of the shard, expert
  // The expert that alone has the weight of the op.
  std::optional<Expert> owner(OpId op) const;

  uint64_t alignment_ = 0;
  IdMap<OpId, OpRole> roles_;
  std::vector<OpId> ops_;
  std::optional<Expert> last_;
};

}  // namespace moec
