// The mask of attention from the positions of keys and queries.
#pragma once

#include <string>
#include <utility>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/manifest/manifest.h"

namespace moec {

struct MaskPositions {
  std::string keys, queries;  // i64, [K] and [T, 1]
  std::string closed;         // bool [K]: keys that no query sees; empty: there are none
};

// Adds the mask `name` [1, 1, T, K] of the binding's window and chunks: `masked_value` for hidden
// keys, else 0. Query q sees key k if k <= q, and with a window k > q − window, and with chunks
// k >= the first position of q's chunk.
void add_attention_mask(GraphNodes& nodes, const InputBinding& binding,
                        const MaskPositions& positions, const std::string& name,
                        const std::pair<DType, double>& masked_value);

}  // namespace moec
