// Compares the weights of an exported folder with the manifest's weight records: each expert of
// each layer must be present exactly once, and every other weight must be unchanged. The check
// reads graphs and bytes and does not rely on the digests of whole files. The owner of a weight
// follows from the graph's data flow (ir/analysis/find_experts.h); the file's metadata must state
// the same owner. Experts permuted together with their router rows are accepted: see
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
  // `manifest` must outlive the check and pass check_manifest(). Without `content`, checks only the
  // graphs and the presence of experts, and reads no payload.
  WeightCheck(const Manifest& manifest, std::string folder, bool content);

  // Checks a shard's graph for one width. Read errors become findings, as do
  //   coverage.changed_graph     the ops no longer compute what was exported
  //   coverage.ownership         the file's metadata contradicts the graph about the owner of a
  //                              weight, states no owner, or names a weight that the file lacks
  //   coverage.changed_weight, coverage.unknown_weight   about weights that belong to no expert
  //   coverage.misplaced_expert  an expert outside the range that the manifest assigns to the shard
  //   coverage.nonfinite_weight  a note: NaN or infinite weights in addition to the overflows that
  //                              the manifest counts; needs content
  //   coverage.duplicate_expert  an expert that another shard of the layer also contains
  void take(const manifest::Shard& shard, size_t width, const LoadedShard& file);
  // Records that the graph could not be read: coverage.unreadable_experts.
  void cannot_read(const manifest::Shard& shard, size_t width);

  // Call after all shards. Returns the findings of take() and cannot_read(), those of
  // compare_experts(), and coverage.missing_weight.
  Diagnostics finish();

 private:
  struct Layer {
    LayerExperts recorded;
    std::vector<LayerExperts> found;  // by width
    std::vector<bool> readable;       // by width
    int64_t groups = 1;               // router groups
  };
  struct Digests {
    std::vector<std::string> hex;  // one per block
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
  std::map<std::string, Digests> read_;                      // by position in the files
  Diagnostics findings_;
};

}  // namespace moec
