// The nodes of a cluster as peers that compute missing experts (--on-miss peer).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backends/runtime/session/expert_peers.h"
#include "frontends/nodes/node_client.h"
#include "frontends/nodes/node_servers.h"

namespace moec {

// Lets the thread of a call do other work while it waits for the answer. Two nodes that wait for
// each other must run each other's calls meanwhile.
struct PeerWait {
  std::function<void(const std::function<bool()>& done)> wait;  // returns when done() is true
  std::function<void()> wake;  // called from another thread when done() has become true
};

// Calls go to the first node of the list that has all experts that the session lacks in the layer,
// and to the next such node if that one fails. A node that failed or did not answer is asked for
// its experts again after some seconds, or when no other node is left. The session's own node may
// be in the list, because it has no experts that the session lacks.
class NodePeers : public ExpertPeers {
 public:
  explicit NodePeers(const std::vector<NodeServer>& nodes);

  // Without this, run() blocks.
  void wait_with(PeerWait wait) { wait_ = std::move(wait); }

  Status require(const ExpertSets& lacking, const ExpertGrid& grid) override;
  Result<PeerAnswer> run(const ExpertCall& call) override;

 private:
  struct Peer {
    NodeServer server;
    NodeConnection connection;
    std::optional<ExpertSets> experts;  // nullopt: not known
    std::chrono::steady_clock::time_point ask_at;
  };

  void ask_experts(Peer& peer, bool now);
  bool has_lacking(const Peer& peer, int64_t layer) const;
  NodeReply post(Peer& peer, const std::string& body);
  tl::unexpected<Diagnostics> no_peer(int64_t layer, const std::string& last) const;

  std::vector<Peer> peers_;
  ExpertSets lacking_;
  ExpertGrid grid_;
  PeerWait wait_;
};

}  // namespace moec
