// The machines of a cluster, from a JSON file:
//
//   {"nodes": [{"name": "alpha", "memory": "24GB", "bandwidth": "936GB/s", "tflops": 71,
//               "link": "10Gbit/s", "latency_ms": 0.2, "min_experts": 32}, …]}
//
// name         unique
// memory       for weights, caches and activations
// bandwidth    rate of reads of weights from this memory
// tflops       10^12 operations/s; a multiply-add is two (default: no limit)
// link         rate of transfers to other nodes
// latency_ms   a request to another node and its answer, without data (default: 0)
// min_experts  minimum number of experts per layer (default: top-k)
//
// `bandwidth` and `link` are optional, but all nodes or none have them. Without `bandwidth`, the
// speed of a node is unknown.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct ClusterNode {
  std::string name;         // empty: the nodes have no names
  int64_t memory = 0;       // bytes; 0: no limit
  double bandwidth = 0;     // bytes/s; 0: unknown
  double flops = 0;         // operations/s; 0: no limit
  double link = 0;          // bytes/s; 0: unknown
  double latency = 0;       // seconds
  int64_t min_experts = 0;  // per layer
  bool operator==(const ClusterNode&) const = default;
};

// Errors: cluster.syntax, cluster.duplicate_key, cluster.missing_field, cluster.unknown_field,
// cluster.bad_value (no nodes, a name twice, an amount that is not positive and finite, a field
// that only some nodes have), each with file and line.
Result<std::vector<ClusterNode>> parse_cluster_nodes(std::string_view text,
                                                     const std::string& file);

// Reads a file. Errors: cluster.file, and those of parse_cluster_nodes().
Result<std::vector<ClusterNode>> read_cluster_nodes(const std::string& path);

}  // namespace moec
