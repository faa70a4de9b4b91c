// A digest of what a shard computes, for whatever weights: of its ops, constants and ports as they
// depend on each other. Op order and value names do not count, except the names of plain weights,
// which distinguish these. Experts are interchangeable: the digest contains neither which channel
// of the routing weights an expert takes nor which of the weights of the same type it has.
#pragma once

#include <string>

#include "ir/analysis/find_experts.h"

namespace moec {

// `roles` is find_experts() of the shard. As in backends/files/digest.h.
std::string digest_graph(const Shard& shard, const IdMap<OpId, OpRole>& roles);

}  // namespace moec
