// Cuts views into blocks and streams them: several threads read and convert blocks, and the
// caller's thread delivers them in order. The next views are read while one is delivered.
#pragma once

#include "backends/weights/views/view_node.h"

namespace moec {

// How a view is cut: `block` elements are read at once, and `tile` elements are given to the sink
// at once.
struct Cut {
  NodePtr node;
  uint64_t elements = 0, block = 1, tile = 1;

  uint64_t block_bytes() const { return block * node->width(); }
  uint64_t block_count() const { return (elements + block - 1) / block; }
  // The memory that reading one block takes besides the block itself.
  uint64_t scratch_bytes(const ReaderOptions& options) const {
    return node->scratch_bytes(block, options);
  }
};

// Chooses the size of blocks: a tile, or gather_bytes for a view that reorders its source; smaller
// where the memory of `options` demands it. Error: weights.over_budget.
Result<Cut> cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options);

// How many blocks of a series are held at a time, and the memory that each of them takes.
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

  // Delivers the next view, as WeightReader::stream() does, on the caller's thread. Not to be
  // called after a failure.
  Status next(const TileSink& sink, StreamReport& report);

 private:
  class Readers;
  std::vector<Cut> cuts_;
  const std::vector<PayloadFile>& files_;
  ReaderOptions options_;
  Slots slots_;
  size_t next_ = 0;  // view
  std::unique_ptr<Readers> readers_;
};

}  // namespace moec
