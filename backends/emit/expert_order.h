// Orders a shard's weights in a data file. The default is graph order. Runtimes that read single
// experts need each expert's weights to be contiguous.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "backends/emit/data_layout.h"
#include "backends/emit/moe_layers.h"

namespace moec {

// Placement of experts in data files.
struct ExpertLayout {
  // A power of two, at least 64: each expert's weights are contiguous, start at a multiple of it,
  // and follow all other weights. 0: the order of the graph.
  uint64_t alignment = 0;
  // The MoE layers that own the experts. Without them, `alignment` has no effect.
  std::optional<MoeLayers> layers;
};

class ExpertOrder {
 public:
  ExpertOrder(const Shard& shard, const ExpertLayout& experts);

  // All ops; weights of single experts come last.
  const std::vector<OpId>& ops() const { return ops_; }
  // Call before adding the weight that `op` defines to the layout.
  void begin(OpId op, DataLayout& layout);

 private:
  using Expert = std::pair<size_t, int64_t>;  // MoE layer of the shard, expert
  // The only expert that uses the op's weight, if there is one.
  std::optional<Expert> owner(OpId op) const;

  uint64_t alignment_ = 0;
  IdMap<OpId, OpRole> roles_;
  std::vector<OpId> ops_;
  std::optional<Expert> last_;
};

}  // namespace moec
