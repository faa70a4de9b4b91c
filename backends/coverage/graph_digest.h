// A digest of what a shard computes, for whatever weights: of its ops, constants and ports as they
// depend on each other. Op order and value names do not count, but for the names of plain weights,
// which tell one from another. Experts stand for each other: neither which channel of the routing
// weights an expert takes nor which of the weights of the same type it has is part of it.
#pragma once

#include <string>

#include "ir/analysis/find_experts.h"

namespace moec {

// `roles` is find_experts() of the shard. As in backends/files/digest.h.
std::string digest_graph(const Shard& shard, const IdMap<OpId, OpRole>& roles);

}  // namespace moec
