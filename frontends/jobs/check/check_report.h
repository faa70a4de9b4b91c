// Report of a checked folder: placement and coverage of its shards, broken rules, and findings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"
#include "ir/target/target.h"
#include "ir/target/target_rules.h"

namespace moec {

// A computing op with its predicted unit. Weights and constants are not placed.
struct PlacedOp {
  std::string name;  // first result, or "state_write STATE"
  // Name in the file, as in LoadedShard::nodes; empty if the op only prepares the operand of an op
  // with a name.
  std::string file_name;
  // `file_name`, or the name of the op that uses the result if `file_name` is empty.
  std::string node;
  std::string op;    // mnemonic
  std::string unit;  // predicted
  std::string rule;  // rule that predicts the unit; empty if the op runs on the target's unit
  int64_t macs = 0;
  int64_t weight_bytes = 0;  // excludes weights that an earlier op reads
};

// An amount in total, the part predicted on the target's unit, and the undecided part. The
// undecided part would be predicted on the unit, but a warning applies to its shard as a whole.
struct Share {
  int64_t whole = 0, on_unit = 0, undecided = 0;
  void add(int64_t amount, bool is_on_unit) {
    whole += amount;
    if (is_on_unit) on_unit += amount;
  }
  Share& operator+=(const Share& other) {
    whole += other.whole;
    on_unit += other.on_unit;
    undecided += other.undecided;
    return *this;
  }
  void doubt() { undecided += std::exchange(on_unit, 0); }
  // Percentage of `on_unit`. 100 if the whole is 0, because nothing runs elsewhere.
  double percent() const { return whole == 0 ? 100.0 : percent_of(on_unit); }
  double percent_undecided() const { return whole == 0 ? 0.0 : percent_of(undecided); }
  // True if on_unit + undecided is at least this percentage. Exact, unlike percent(), which rounds.
  bool reaches(int64_t percentage) const {
    return (on_unit + undecided) * 100 >= whole * percentage;
  }

 private:
  double percent_of(int64_t part) const {
    return 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  }
};

struct Coverage {
  Share ops, macs, weight_bytes;
  Coverage& operator+=(const Coverage& other);
  // Makes everything on the unit undecided, for a warning about the whole shard.
  void doubt();
};

struct PlacementReport {
  std::vector<PlacedOp> ops;
  Coverage coverage;
  int64_t transitions = 0;  // changes between units, in the order of ops
};

// A rule that a shard's file breaks. For a rule of severity error, there is one finding per op; for
// warnings and notes, one per file, for the first op that breaks the rule.
struct RuleFinding {
  const TargetRule* rule = nullptr;
  std::string shard, file;
  std::string op;   // empty: the rule applies to the shard as a whole
  int64_t ops = 0;  // ops that break the rule; 0 if the rule applies to the shard as a whole
  std::string what;
};

struct CheckedWidth {
  int64_t tokens = 0;
  std::string file;
  PlacementReport placement;  // predicted
  size_t index = 0;           // in the widths of the manifest's shard
};

struct CheckedShard {
  std::string name;
  ShardKind kind = ShardKind::attention;
  std::vector<CheckedWidth> widths;            // readable widths, in ascending order
  Coverage coverage;                           // over all widths
  std::vector<const TargetRule*> doubts;       // warnings that apply to the shard as a whole
  int64_t ops = 0, weight_bytes = 0;           // of the narrowest file
  std::vector<manifest::Placement> placement;  // predicted, of the narrowest file
  int64_t peak_activation_bytes = 0;           // of the widest file
};

// Contents of an export in a format without graphs.
struct HeldWeights {
  int64_t files = 0, tensors = 0, bytes = 0;
  int64_t moe_layers = 0, experts = 0;  // `experts` per MoE layer
};

struct CheckReport {
  Manifest manifest;
  Target target;
  std::vector<CheckedShard> shards;
  std::vector<RuleFinding> rules;  // by shard; point into `target`
  Coverage coverage;
  int64_t min_coverage = 0;         // percent of compute ops
  std::optional<HeldWeights> held;  // set for a format without graphs, which has no shards
  Diagnostics findings;             // errors and warnings; any error fails the check
};

inline constexpr std::string_view kExpectedPlacement = "expected_placement.json";
inline constexpr std::string_view kMeasuredPlacement = "measured.json";  // written by moec confirm

struct CheckOptions {
  std::string target;                   // empty: the manifest's target
  std::string chip;                     // empty: apply the rules of all chips
  std::optional<int64_t> min_coverage;  // percent; default: the target's
  bool allow_over_budget = false;       // report a shard above its budget as a warning
  bool digests = true;                  // read all files and compare their digests
  // Receives the bytes of files checked since its previous call, the total, and the current file or
  // shard. May be empty.
  std::function<void(uint64_t bytes, uint64_t total, const std::string& part)> progress;
};

struct CheckedNode {
  std::string folder;
  std::unique_ptr<CheckReport> report;
};

struct SplitCheck {
  std::vector<CheckedNode> nodes;
  Diagnostics findings;  // about the split as a whole

  bool passed() const;
};

}  // namespace moec
