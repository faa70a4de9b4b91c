// The state of a gateway's nodes: health, load and counters.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "frontends/nodes/node_servers.h"

namespace moec {

struct NodeState {
  bool up = false;                                    // the last health check or request succeeded
  bool draining = false;                              // gets no new requests
  int64_t running = 0;                                // requests
  int64_t requests = 0, failures = 0, failovers = 0;  // since the start; failovers from this node
  std::string gates;                                  // the node's GET /v1/gates; may be empty
};

class NodePool;

// A place for one request at a node, until it is destroyed.
class NodeLease {
 public:
  NodeLease(NodePool& pool, size_t node) : pool_(&pool), node_(node) {}
  NodeLease(NodeLease&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), node_(other.node_) {}
  NodeLease& operator=(NodeLease&&) = delete;
  ~NodeLease();

 private:
  NodePool* pool_;
  size_t node_;
};

// Thread-safe.
class NodePool {
 public:
  explicit NodePool(std::vector<NodeServer> nodes)
      : nodes_(std::move(nodes)), states_(nodes_.size()) {}

  size_t size() const { return nodes_.size(); }
  const NodeServer& node(size_t index) const { return nodes_[index]; }
  std::vector<NodeState> states() const;

  // Nothing if the node is down, draining, or has max_requests requests.
  std::optional<NodeLease> take(size_t node);
  // True if the node accepts requests, now or when others have ended.
  bool is_usable(size_t node) const;

  void set_up(size_t node, bool up);
  void set_draining(size_t node, bool draining);
  void set_gates(size_t node, std::string gates);
  // Counts a request that the node did not answer, and marks the node as down.
  void count_failure(size_t node);
  // Counts a text that continues on another node.
  void count_failover(size_t node);

 private:
  friend class NodeLease;

  const std::vector<NodeServer> nodes_;
  mutable std::mutex mutex_;
  std::vector<NodeState> states_;
};

}  // namespace moec
