// Cuts views into blocks and streams them: several threads read and convert blocks, and the
// caller's thread delivers them in order. The next views are read while one is delivered.
#pragma once

#include "backends/weights/views/view_node.h"

namespace moec {

// Division of a view, in elements: `block` elements are read at once, and the sink receives at most
// `tile` elements at once.
struct Cut {
  NodePtr node;
  uint64_t elements = 0, block = 1, tile = 1;

  uint64_t block_bytes() const { return block * node->width(); }
  uint64_t block_count() const { return (elements + block - 1) / block; }
  // Memory for reading one block, in addition to the block itself.
  uint64_t scratch_bytes(const ReaderOptions& options) const {
    return node->scratch_bytes(block, options);
  }
};

// Chooses the block size: a tile, or gather_bytes for a view that reorders its source; smaller if
// ReaderOptions::memory_bytes requires it. Error: weights.over_budget.
Result<Cut> cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options);

// Number of blocks of a series that are held at once, and the memory per block.
struct Slots {
  uint64_t count = 1, block_bytes = 0, scratch_bytes = 0;
  uint64_t held_bytes() const { return count * (block_bytes + scratch_bytes); }
};
Slots choose_slots(std::span<const Cut> cuts, const ReaderOptions& options);

class CutSeries {
 public:
  // `files` must outlive the series.
  CutSeries(std::vector<Cut> cuts, const std::vector<PayloadFile>& files,
            const ReaderOptions& options);
  ~CutSeries();

  // Delivers the next view on the caller's thread, as WeightReader::stream() does. Must not be
  // called after a failure.
  Status next(const TileSink& sink, StreamReport& report);

 private:
  class Readers;
  std::vector<Cut> cuts_;
  const std::vector<PayloadFile>& files_;
  ReaderOptions options_;
  Slots slots_;
  size_t next_ = 0;  // index of the next view
  std::unique_ptr<Readers> readers_;
};

}  // namespace moec
