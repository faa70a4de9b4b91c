// Records the routing weights that shards compute.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>

#include "backends/reference/rows.h"
#include "backends/runtime/session/session.h"

namespace moec {

class RoutingRecord {
 public:
  // Returns a probe that records the routing weights of the next `count` tokens in this object,
  // which must outlive the probe.
  StepProbe probe(int64_t count);

  // Rows of all tokens since the last clear(), by layer. Only contains layers with labelled weights
  // in their graphs.
  const std::map<int64_t, Rows>& layers() const { return layers_; }
  void clear() { layers_.clear(); }

 private:
  std::map<int64_t, Rows> layers_;
};

// Runs tokens, the first at `position`, through the session in chunks. Returns the logits and adds
// the routing weights to `record`. `chunk_size` returns the size of the next chunk for a number of
// remaining tokens. Errors: those of Session::pass().
Result<Rows> recorded_logits(Session& session, std::span<const int64_t> tokens, int64_t position,
                             const std::function<int64_t(int64_t remaining)>& chunk_size,
                             RoutingRecord& record);

}  // namespace moec
