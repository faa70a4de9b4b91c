// Views cut into blocks, and the stream of them: read and converted by several threads, delivered
// in order. What follows a view is read while the view is delivered.
#pragma once

#include "backends/weights/view_node.h"

namespace moec {

// How a view is cut: elements in a block, which is filled at once, and in a tile, which is
// delivered at once.
struct Cut {
  NodePtr node;
  uint64_t elements = 0, block = 1, tile = 1;

  uint64_t block_bytes() const { return block * node->width(); }
  uint64_t block_count() const { return (elements + block - 1) / block; }
  // What it takes to read one block besides the block itself.
  uint64_t scratch_bytes(const ReaderOptions& options) const {
    return node->scratch_bytes(block, options);
  }
};

// Blocks as large as reading wants them, as far as the budget allows. Error: weights.over_budget.
Result<Cut> cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options);

// How a series of views is read: how many blocks are held at a time, and what each of them takes.
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

  // Delivers the next view, as WeightReader::stream(), on the caller's thread. After a failure
  // there is no next one.
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
