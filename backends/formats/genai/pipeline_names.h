// Names of the values between the stages of a pipeline. A stage finds its inputs by their names, so
// a value has the name of the port that reads it if no other value needs that name.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"

namespace moec {

class PipelineNames {
 public:
  explicit PipelineNames(const Manifest& manifest);

  // The name of the value of an input: an edge, or a mask or rotation, which differ by their
  // windows, chunks and rotations. Caches have no name here.
  std::string value(const InputBinding& binding) const;
  std::string edge(const std::string& edge) const;

  // True if the value has another name than the port.
  bool is_renamed(const InputBinding& binding) const;

 private:
  // Steps that define and last read an edge, and the ports that read it.
  struct Use {
    int64_t defined = -1, last = -1;
    std::set<std::string> ports;
  };
  void add_uses(const Manifest& manifest);
  bool has_one_edge_at_a_time(const std::string& port) const;

  std::map<std::string, Use> edges_;
  std::map<std::string, InputBinding> inputs_;  // by port: its only binding so far
  std::set<std::string> shared_;                // ports with several values
};

// True for caches, which the engine keeps.
inline bool is_cache(SourceKind source) {
  return source == SourceKind::k_cache || source == SourceKind::v_cache;
}

}  // namespace moec
