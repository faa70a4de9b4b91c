// Experts that the folder of a session lacks, computed by other nodes of the cluster.
//
// The shards of a layer's experts form a chain: each adds the outputs of its experts to a sum. A
// session of a node runs the shards that its folder has, and passes the sum on to a peer for the
// others. The order of additions is that of the whole export, so the results are equal bit for bit.
// This requires the same engine, and processors with the same vector instructions, on all nodes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/rows.h"
#include "ir/base/diagnostics.h"
#include "ir/experts/expert_sets.h"

namespace moec {

struct CalledShard {
  std::string name;
  std::string digest;  // of the graph that runs and of its weight files
  bool operator==(const CalledShard&) const = default;
};

// Shards of expert groups of one layer that a peer runs in this order.
struct ExpertCall {
  int64_t layer = 0;
  // The caller's engine, precision and format of activations. A peer with others would round
  // differently and refuses the call.
  std::string numerics;
  std::vector<CalledShard> shards;
  std::map<std::string, Rows> inputs;  // by port; a row per token, the same number for each port
};

struct PeerAnswer {
  Rows sum;  // after the last shard, a row per token
  std::string host;
};

// The other nodes of a session.
class ExpertPeers {
 public:
  virtual ~ExpertPeers() = default;

  // States the experts that the session lacks, before the first call. For each layer, one peer must
  // have all of them: a token then needs at most one remote host per layer. Error peers.bound: no
  // peer has them all, and all peers answer. Peers that do not answer yet are asked again later.
  virtual Status require(const ExpertSets& lacking, const ExpertGrid& grid) = 0;

  // Returns the sum after the last shard of the call. Errors: peers.bound, peers.lost (no peer with
  // the experts answers as expected).
  virtual Result<PeerAnswer> run(const ExpertCall& call) = 0;
};

// Counts of a session's calls.
struct PeerCounts {
  int64_t calls = 0;
  int64_t choices = 0;     // tokens × layers
  int64_t missed = 0;      // choices with an expert that the folder lacks
  int64_t most_hosts = 0;  // maximum number of other hosts of a token in a layer
  double seconds = 0;      // waited for answers
};

}  // namespace moec
