// Checks an exported folder without a device: its files and digests, ONNX's own checker, the IR
// read back from the files, ports, coverage of the model's weights, and where each op is predicted
// to run.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frontends/jobs/check/check_report.h"
#include "ir/base/diagnostics.h"

namespace moec {

PlacementReport report_placement(const Target& target, const Shard& shard);

// Fills in PlacedOp::file_name. `shard` is the one that was reported; `names` has a name for each
// of its ops.
void name_as_in_file(PlacementReport& report, const Shard& shard,
                     const IdMap<OpId, std::string>& names);

// A manifest that cannot be read or an unknown target or chip is an error; all else is a finding.
// Findings of its own: manifest.no_binary, check.ports, check.weight_bytes, check.over_budget,
// check.coverage, check.undecided, check.cast_overflow, coverage.*
// (backends/coverage/check_weights.h), target.RULE for each error of a rule, and those of
// read_probe_table() if the manifest names a table; of an export as GGUF those of check_gguf.h.
// The report does not move: its rule findings point into it.
Result<std::unique_ptr<CheckReport>> check_folder(const std::string& folder,
                                                  const CheckOptions& options);

struct BrokenRule {
  const TargetRule* rule = nullptr;  // of the report's target
  size_t files = 0;
  int64_t ops = 0;
};

// The rules that any shard breaks, in the order of the target.
std::vector<BrokenRule> broken_rules(const CheckReport& report);

// Of the narrowest file of each shard.
int64_t checked_weight_bytes(const CheckReport& report);

// Changes of the unit, in all files of the shard.
int64_t transitions(const CheckedShard& shard);

}  // namespace moec
