// The weights of an exported folder against what the manifest recorded when they were written: each
// expert of each layer present once, and each other weight what it was. Told from the graphs and
// the bytes, whatever digests of whole files say.
//
// A weight is an expert's by what the graph computes (ir/analysis/find_experts.h). Accepted are
// experts that changed places together with their rows of the router: see
// backends/coverage/compare_experts.h.
#pragma once

#include <map>
#include <set>
#include <string>

#include "backends/coverage/compare_experts.h"
#include "backends/manifest/manifest.h"
#include "ir/graph/loaded_shard.h"

namespace moec {

class WeightCheck {
 public:
  // `manifest` must outlive the check and pass check_manifest(). Without `content` no payload is
  // read, and only graphs and the presence of experts are checked.
  WeightCheck(const Manifest& manifest, std::string folder, bool content);

  // A shard's graph for one width. Errors of reading are findings, and so are
  //   coverage.changed_graph     the ops do not compute what they did
  //   coverage.changed_weight, coverage.unknown_weight   a weight that is no expert's
  //   coverage.misplaced_expert  an expert outside the range that the manifest gives the shard
  //   coverage.duplicate_expert  an expert that another shard of the layer holds as well
  void take(const manifest::Shard& shard, size_t width, const LoadedShard& file);
  // The graph could not be read: coverage.unreadable_experts.
  void cannot_read(const manifest::Shard& shard, size_t width);

  // After all shards: the codes of compare_experts(), and coverage.missing_weight.
  Diagnostics finish();

 private:
  struct Layer {
    LayerExperts recorded;
    std::vector<LayerExperts> found;  // by width
    std::vector<bool> readable;       // by width
    int64_t groups = 1;               // of the router
  };
  struct Digests {
    std::vector<std::string> hex;  // by block
    std::vector<uint64_t> zero_tail;
  };
  class Taking;

  void record(const manifest::Shard& shard);
  void record(const manifest::Shard& shard, const WeightRecord& weight);
  void compare(int64_t number, const Layer& layer);

  const Manifest& manifest_;
  const std::string folder_;
  const bool content_;
  int64_t experts_ = 0;
  std::map<int64_t, Layer> layers_;
  KnownExperts known_;
  std::map<std::string, std::set<std::string>> plain_seen_;  // shard → names
  std::map<std::string, Digests> read_;                      // by place in the files
  Diagnostics findings_;
};

}  // namespace moec
