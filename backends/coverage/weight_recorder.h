// Records digests of a shard's weights during emission, so that `moec check` can verify from the
// files alone that each expert is present and unchanged.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "backends/emit/emit.h"
#include "backends/files/block_digests.h"
#include "ir/model/plan.h"

namespace moec {

class WeightRecorder {
 public:
  // `widths` contains the shard of each token width; `experts` and `moe_layers` are as in
  // find_experts().
  WeightRecorder(std::span<const Shard> widths, int64_t experts, size_t moe_layers);

  // The callback for EmitOptions::on_weight.
  void take(const std::string& weight, uint64_t offset, std::span<const std::byte> bytes);

  // Call after all weights have been written, with EmitReport::ranges. Returns one record per
  // weight of the graphs.
  std::vector<WeightRecord> records(std::span<const EmittedRange> ranges) const;

 private:
  struct Entry {
    std::string name, weight;  // weight_key()
    Type type;
    WeightShare share;
    BlockDigests digests;
  };
  void add(const std::string& name, const std::string& weight, const Type& type,
           const WeightShare& share);

  std::vector<Entry> entries_;
  std::multimap<std::string, size_t> by_weight_;
};

}  // namespace moec
