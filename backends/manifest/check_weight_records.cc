// Checks that the recorded weights match the experts that the shards declare.
#include <algorithm>
#include <bit>

#include "backends/files/digest.h"
#include "backends/manifest/check_parts.h"
#include "ir/base/at.h"
#include "ir/experts/expert_runs.h"

namespace moec::manifest {
namespace {

constexpr size_t kDigestLength = 32;

// Returns true if the text is one or more digests.
bool are_digests(std::string_view text) {
  if (text.empty() || text.size() % kDigestLength != 0) return false;
  for (size_t at = 0; at < text.size(); at += kDigestLength)
    if (!is_digest(text.substr(at, kDigestLength))) return false;
  return true;
}

int64_t blocks_of(const WeightRecord& record) {
  return static_cast<int64_t>(record.digests.size() / kDigestLength);
}

// Returns the run of the shard's experts that contains `expert`, or the first run if none does.
ExpertRun run_with(const Shard& shard, int64_t expert) {
  const std::vector<ExpertRun> runs = expert_runs(shard);
  for (const ExpertRun& run : runs)
    if (expert >= run.first && expert - run.first < run.count) return run;
  return runs.front();
}

// Checks that the record's blocks are within the range that its role allows.
bool check_blocks(const Shard& shard, const WeightRecord& record, int64_t experts,
                  Findings& findings) {
  int64_t begin = 0, end = 1;  // plain: one block
  if (record.role == WeightRole::routing) end = experts;
  if (record.role == WeightRole::expert) {
    const ExpertRun run = run_with(shard, record.first_expert);
    begin = run.first;
    end = begin + run.count;
  }
  const int64_t blocks = blocks_of(record);
  const auto layers = std::ssize(shard.moe_layers);
  const bool layer =
      0 <= record.moe_layer && record.moe_layer < (record.role == WeightRole::plain ? 1 : layers);
  if (!findings.require(layer, "manifest.weights", shard.name,
                        "the weight {} belongs to MoE layer {} of {}", record.name,
                        record.moe_layer, layers))
    return false;
  // The first comparison keeps the difference from overflowing.
  const bool inside = record.first_expert >= begin && blocks <= end - record.first_expert;
  // Only an expert weight can be stored in several records.
  const bool whole = record.role == WeightRole::expert || blocks == end;
  return findings.require(
      inside && whole, "manifest.weights", shard.name,
      "the weight {} of role {} has {} blocks starting at {}, expected {} to {}", record.name,
      enum_name(record.role), blocks, record.first_expert, begin, end - 1);
}

bool is_power_of_two(int64_t number) {
  return number > 0 && std::has_single_bit(static_cast<uint64_t>(number));
}

// Returns true if the range is within a data file of the shard.
bool lies_in_file(const Shard& shard, const WeightRange& range) {
  if (range.data < 0 || range.data >= std::ssize(shard.data)) return false;
  const int64_t size = at(shard.data, range.data).bytes;
  // Compares a difference, because range.offset + range.bytes could overflow.
  return range.offset >= 0 && range.bytes > 0 && range.bytes <= size &&
         range.offset <= size - range.bytes;
}

void check_ranges(const Shard& shard, const WeightRecord& record, Findings& findings) {
  for (const WeightRange& range : record.ranges) {
    findings.require(
        lies_in_file(shard, range), "manifest.ranges", shard.name,
        "bytes [{}, {} + {}) of data file {} are not a valid range for the {} of weight {}",
        range.offset, range.offset, range.bytes, range.data, enum_name(range.part), record.name);
    findings.require(is_power_of_two(range.alignment) && range.offset % range.alignment == 0,
                     "manifest.ranges", shard.name,
                     "offset {} of the weight {} is not aligned to {}", range.offset, record.name,
                     range.alignment);
    findings.require(is_digest(range.digest), "manifest.digest", shard.name,
                     "the digest \"{}\" of a range of {} is not 32 hex digits", range.digest,
                     record.name);
    // Values or codes come first; scales, zero points and palettes follow.
    const bool is_first = &range == &record.ranges.front();
    const bool begins = range.part == StoredAs::values || range.part == StoredAs::codes;
    findings.require(begins == is_first, "manifest.ranges", shard.name,
                     "range {} of the weight {} must not contain its {}",
                     &range - record.ranges.data(), record.name, enum_name(range.part));
  }
  findings.require(!record.ranges.empty(), "manifest.ranges", shard.name,
                   "the weight {} has no ranges", record.name);
}

// Checks that every expert has the same number of weights. Skips shards with a single expert.
void check_experts(const Shard& shard, const std::map<int64_t, int64_t>& weights,
                   Findings& findings) {
  const auto recorded = std::ssize(weights);
  if (shard.experts < 2 ||
      !findings.require(recorded == shard.experts, "manifest.weights", shard.name,
                        "found weights of {} experts, expected {}", recorded, shard.experts))
    return;
  const auto& [first, most] = *weights.begin();
  for (const auto& [expert, count] : weights)
    findings.require(count == most, "manifest.weights", shard.name,
                     "expert {} has {} weights, expert {} has {}", expert, count, first, most);
}

void check_records(const Shard& shard, int64_t experts, Findings& findings) {
  std::vector<std::map<int64_t, int64_t>> weights(
      shard.moe_layers.size());  // weight counts by expert, per MoE layer
  for (const WeightRecord& record : shard.weights) {
    check_ranges(shard, record, findings);
    // blocks_of() counts whole digests, so it requires well-formed ones.
    if (!findings.require(are_digests(record.digests), "manifest.digest", shard.name,
                          "the digests of the weight {} are not 32 hex digits each", record.name) ||
        !check_blocks(shard, record, experts, findings))
      continue;
    if (record.role == WeightRole::expert)
      for (int64_t i = 0; i < blocks_of(record); ++i)
        ++at(weights, record.moe_layer)[record.first_expert + i];
  }
  for (const auto& of_layer : weights) check_experts(shard, of_layer, findings);
}

// Returns true if the sum of two such counts cannot overflow. Other checks report invalid counts.
bool is_count(int64_t number) { return number >= 0 && number <= kMaxElements; }

}  // namespace

void check_weights(const Manifest& manifest, Findings& findings) {
  // Uses the last shard with routing. check_layers() reports shards of a layer that disagree.
  int64_t experts = 0;
  for (const Shard& shard : manifest.shards)
    if (shard.routing && is_count(shard.routing->experts)) experts = shard.routing->experts;
  for (const Shard& shard : manifest.shards) {
    for (const Width& width : shard.widths)
      findings.require(is_digest(width.graph), "manifest.digest", shard.name,
                       "the digest \"{}\" of a graph is not 32 hex digits", width.graph);
    if (is_count(shard.first_expert) && is_count(shard.experts) &&
        std::all_of(shard.expert_ids.begin(), shard.expert_ids.end(), is_count))
      check_records(shard, experts, findings);
  }
}

}  // namespace moec::manifest
