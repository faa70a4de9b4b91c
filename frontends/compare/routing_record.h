// Routing weights that a shard computes, recorded while it runs.
#pragma once

#include <map>
#include <string>

#include "backends/runtime/rows.h"
#include "backends/runtime/session.h"

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

}  // namespace moec
