// Checks an exported folder without a device: files and digests, ONNX's own checker, the IR read
// back from the files, ports, coverage of the model's weights, and the predicted unit of each op.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontends/jobs/check/check_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

PlacementReport report_placement(const Target& target, const Shard& shard);

// Fills in PlacedOp::file_name and ::node. `shard` is the reported shard, and `nodes` are those of
// its file (LoadedShard::nodes).
void name_as_in_file(PlacementReport& report, const Shard& shard,
                     const IdMap<OpId, std::string>& nodes);

// Errors: an unreadable manifest, an unknown target or chip. Everything else is a finding:
//   manifest.no_binary, check.ports, check.weight_bytes, check.over_budget, check.coverage,
//   check.undecided, check.cast_overflow
//   coverage.*    those of backends/coverage/check_weights.h
//   target.RULE   one per violation of a rule of severity error
//   those of read_probe_table() if the manifest lists a table
//   those of check_gguf.h for a GGUF export
// Reports progress in checked_bytes() of the folder's manifest. Returns a pointer because rule
// findings point into the report, which must not move.
Result<std::unique_ptr<CheckReport>> check_folder(const std::string& folder,
                                                  const CheckOptions& options);

// Bytes that check_folder() reports as progress: each file once with CheckOptions::digests, and the
// files of each shard.
uint64_t checked_bytes(const Manifest& manifest, bool digests);

struct BrokenRule {
  const TargetRule* rule = nullptr;  // points into the report's target
  size_t files = 0;
  int64_t ops = 0;
};

// Rules that at least one shard breaks, in the target's order.
std::vector<BrokenRule> broken_rules(const CheckReport& report);

// Weight bytes of the narrowest file of each shard.
int64_t checked_weight_bytes(const CheckReport& report);

// Number of transitions between units, summed over all files of the shard.
int64_t transitions(const CheckedShard& shard);

}  // namespace moec
