// Routing weights that a shard computes, recorded while it runs.
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
  // Adds what the shards compute for the next `count` tokens. It refers to this object.
  StepProbe probe(int64_t count);

  // Rows of all tokens since the last clear(), by layer; without the layers whose graphs do not
  // name the weights.
  const std::map<int64_t, Rows>& layers() const { return layers_; }
  void clear() { layers_.clear(); }

 private:
  std::map<int64_t, Rows> layers_;
};

// The logits of tokens, the first of them at `position`, that go through the session in chunks; the
// record gets their routing. `chunk_size` says how many of the remaining tokens the next chunk
// takes. Errors: those of Session::pass().
Result<Rows> recorded_logits(Session& session, std::span<const int64_t> tokens, int64_t position,
                             const std::function<int64_t(int64_t remaining)>& chunk_size,
                             RoutingRecord& record);

}  // namespace moec
