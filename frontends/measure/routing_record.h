// Records the routing weights that shards compute.
#pragma once

#include <map>

#include "frontends/measure/run_text.h"

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
// the routing weights to `record`. Errors: those of Session::pass().
Result<Rows> recorded_logits(Session& session, std::span<const int64_t> tokens, int64_t position,
                             const ChunkSize& size, RoutingRecord& record);

}  // namespace moec
