// A digest of a shard's computation, independent of weight values: its ops, constants and ports
// with their dependencies. It ignores op order and value names, except the names that distinguish
// plain weights. Experts are interchangeable: the digest covers neither an expert's routing channel
// nor which of several equally typed weights it uses.
#pragma once

#include <string>

#include "ir/analysis/find_experts.h"

namespace moec {

// `roles` is the result of find_experts(shard). Returns a digest as in backends/files/digest.h.
std::string digest_graph(const Shard& shard, const IdMap<OpId, OpRole>& roles);

}  // namespace moec
