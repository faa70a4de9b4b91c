// A view cut into blocks, and the stream of them: read and converted by several threads, delivered
// in order.
#pragma once

#include "backends/weights/view_node.h"

namespace moec {

// How a view is cut: elements in a block, which is filled at once, and in a tile, which is
// delivered at once.
struct Cut {
  NodePtr node;
  uint64_t elements = 0, block = 1, tile = 1;

  uint64_t block_bytes() const { return block * node->width(); }
  // What it takes to read one block, and to keep it until it is delivered.
  uint64_t held_bytes(const ReaderOptions& options) const {
    return block_bytes() + node->scratch_bytes(block, options);
  }
};

// Blocks as large as reading wants them, as far as the budget allows. Error: weights.over_budget.
Result<Cut> cut_view(NodePtr node, size_t tile_bytes, const ReaderOptions& options);

// How many blocks are held at a time, at most.
uint64_t blocks_held(const Cut& cut, const ReaderOptions& options);

// As WeightReader::stream(). Calls the sink on the caller's thread only.
Status stream_cut(const Cut& cut, const std::vector<PayloadFile>& files,
                  const ReaderOptions& options, const TileSink& sink, StreamReport& report);

}  // namespace moec
