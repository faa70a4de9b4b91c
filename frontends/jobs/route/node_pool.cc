#include "frontends/jobs/route/node_pool.h"

namespace moec {

NodeLease::~NodeLease() {
  if (pool_ == nullptr) return;
  const std::lock_guard lock(pool_->mutex_);
  --pool_->states_[node_].running;
}

std::vector<NodeState> NodePool::states() const {
  const std::lock_guard lock(mutex_);
  return states_;
}

std::optional<NodeLease> NodePool::take(size_t node) {
  const std::lock_guard lock(mutex_);
  NodeState& state = states_[node];
  if (!state.up || state.draining || state.running >= nodes_[node].max_requests)
    return std::nullopt;
  ++state.running;
  ++state.requests;
  return NodeLease(*this, node);
}

bool NodePool::is_usable(size_t node) const {
  const std::lock_guard lock(mutex_);
  return states_[node].up && !states_[node].draining;
}

void NodePool::set_up(size_t node, bool up) {
  const std::lock_guard lock(mutex_);
  states_[node].up = up;
}

void NodePool::set_draining(size_t node, bool draining) {
  const std::lock_guard lock(mutex_);
  states_[node].draining = draining;
}

void NodePool::set_gates(size_t node, std::string gates) {
  const std::lock_guard lock(mutex_);
  states_[node].gates = std::move(gates);
}

void NodePool::count_failure(size_t node) {
  const std::lock_guard lock(mutex_);
  states_[node].up = false;
  ++states_[node].failures;
}

void NodePool::count_failover(size_t node) {
  const std::lock_guard lock(mutex_);
  ++states_[node].failovers;
}

}  // namespace moec
