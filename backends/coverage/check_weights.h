// Compares the weights of an exported folder with the manifest's records of them: each expert of
// each layer must be present once, and each other weight must be unchanged. The check reads graphs
// and bytes and does not rely on the digests of whole files.
//
// What the graph computes decides whose a weight is (ir/analysis/find_experts.h); the file's
// metadata must state the same. Experts that changed places together with their rows of the router
// are accepted: see backends/coverage/compare_experts.h.
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

  // Takes a shard's graph for one width. Errors of reading are findings, and so are
  //   coverage.changed_graph     the ops do not compute what they did
  //   coverage.ownership         the file's metadata states another owner of a weight than the
  //   graph
  //                              has, no owner, or the owner of a weight that the file lacks
  //   coverage.changed_weight, coverage.unknown_weight   a weight that is no expert's
  //   coverage.misplaced_expert  an expert outside the range that the manifest gives the shard
  //   coverage.nonfinite_weight  a note: weights that are NaN or infinite, beyond those that the
  //   manifest counts as overflows; without content none is seen
  //   coverage.duplicate_expert  an expert that another shard of the layer holds as well
  void take(const manifest::Shard& shard, size_t width, const LoadedShard& file);
  // Notes that the graph could not be read: coverage.unreadable_experts.
  void cannot_read(const manifest::Shard& shard, size_t width);

  // Call after all shards. Returns the findings of take() and cannot_read(), those of
  // compare_experts(), and coverage.missing_weight.
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
