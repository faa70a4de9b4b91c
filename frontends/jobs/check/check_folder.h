// Checks an exported folder without a device: its files and digests, ONNX's own checker, the IR
// read back from the files, ports, coverage of the model's weights, and where each op is predicted
// to run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/jobs/check/placement_report.h"
#include "ir/base/diagnostics.h"
#include "ir/target/target.h"

namespace moec {

// A rule that a shard's file breaks. A rule of severity error gets a finding for each op; a warning
// or note gets one for each file, at the first op that breaks it.
struct RuleFinding {
  const TargetRule* rule = nullptr;
  std::string shard, file;
  std::string op;   // empty: the rule is about the shard as a whole
  int64_t ops = 0;  // that break it; 0 for a rule about the shard as a whole
  std::string what;
};

struct CheckedWidth {
  int64_t tokens = 0;
  std::string file;
  PlacementReport placement;  // predicted
  size_t index = 0;           // among the widths of the manifest's shard
};

struct CheckedShard {
  std::string name;
  ShardKind kind = ShardKind::attention;
  std::vector<CheckedWidth> widths;            // that could be read; the narrowest first
  Coverage coverage;                           // of all widths
  std::vector<const TargetRule*> disputes;     // warnings about the shard as a whole
  int64_t ops = 0, weight_bytes = 0;           // of the narrowest file
  std::vector<manifest::Placement> placement;  // predicted, of the narrowest file
  int64_t peak_activation_bytes = 0;           // of the widest file
};

struct CheckReport {
  Manifest manifest;
  Target target;
  std::vector<CheckedShard> shards;
  std::vector<RuleFinding> rules;  // by shard; they point into `target`
  Coverage coverage;
  int64_t min_coverage = 0;  // percent of the compute ops
  Diagnostics findings;      // errors and warnings; a check falls short when there is an error
};

inline constexpr std::string_view kExpectedPlacement = "expected_placement.json";
inline constexpr std::string_view kMeasuredPlacement = "measured.json";  // of moec confirm

struct CheckOptions {
  std::string target;                   // empty: the one that the manifest names
  std::string chip;                     // empty: rules of all chips hold
  std::optional<int64_t> min_coverage;  // percent; default: the target's
  bool allow_over_budget = false;       // a shard above its budget is a warning
  bool allow_disputed = false;          // a shard that a rule disputes is a warning
  bool digests = true;                  // read every byte of every file and compare its digest
};

// A manifest that cannot be read or an unknown target or chip is an error; all else is a finding.
// Findings of its own: manifest.no_binary, check.ports, check.weight_bytes, check.over_budget,
// check.coverage, check.disputed, check.cast_overflow, coverage.*
// (backends/coverage/check_weights.h), target.RULE for each error of a rule, and those of
// read_probe_table() where the manifest names a table. The report does not move: its rule findings
// point into it.
Result<std::unique_ptr<CheckReport>> check_folder(const std::string& folder,
                                                  const CheckOptions& options);

}  // namespace moec
