// What is said of a checked folder: placement and coverage of its shards, the rules that they
// break, and findings.
#pragma once

#include <cstdint>
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

// Where the ops of a shard are predicted to run, and how much of the shard the target's unit
// covers.

// An op that computes. Weights and constants are not placed.
struct PlacedOp {
  std::string name;  // its first result, or "state_write STATE"
  // Its name in the file: in a Core ML package its output, or "write_state STATE", in an ONNX graph
  // its node; empty where it has none.
  std::string file_name;
  std::string op;    // mnemonic
  std::string unit;  // predicted
  std::string rule;  // that predicts it; empty where the op runs on the target's unit
  int64_t macs = 0;
  int64_t weight_bytes = 0;  // of its weights, except those that an earlier op reads, too
};

// One measure: the whole, the part that is predicted to run on the target's unit, and the part that
// would be, but for a warning about its shard as a whole, which leaves it undecided.
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
  // Of `on_unit`. 100 if the whole is 0: nothing runs elsewhere.
  double percent() const { return whole == 0 ? 100.0 : percent_of(on_unit); }
  double percent_undecided() const { return whole == 0 ? 0.0 : percent_of(undecided); }
  // Whether at least this percentage is on the unit, undecided or not. Exact: percent() rounds.
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
  // A warning about the whole shard: nothing of it counts as predicted on the unit.
  void doubt();
};

struct PlacementReport {
  std::vector<PlacedOp> ops;
  Coverage coverage;
  int64_t transitions = 0;  // between units, along the order of the ops
};

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
  std::vector<const TargetRule*> doubts;       // warnings about the shard as a whole
  int64_t ops = 0, weight_bytes = 0;           // of the narrowest file
  std::vector<manifest::Placement> placement;  // predicted, of the narrowest file
  int64_t peak_activation_bytes = 0;           // of the widest file
};

// What the files of a format without graphs hold.
struct HeldWeights {
  int64_t files = 0, tensors = 0, bytes = 0;
  int64_t moe_layers = 0, experts = 0;  // experts of each of these layers
};

struct CheckReport {
  Manifest manifest;
  Target target;
  std::vector<CheckedShard> shards;
  std::vector<RuleFinding> rules;  // by shard; they point into `target`
  Coverage coverage;
  int64_t min_coverage = 0;         // percent of the compute ops
  std::optional<HeldWeights> held;  // of a format without graphs, which has no shards
  Diagnostics findings;  // errors and warnings; a check falls short when there is an error
};

inline constexpr std::string_view kExpectedPlacement = "expected_placement.json";
inline constexpr std::string_view kMeasuredPlacement = "measured.json";  // of moec confirm

struct CheckOptions {
  std::string target;                   // empty: the one that the manifest names
  std::string chip;                     // empty: rules of all chips hold
  std::optional<int64_t> min_coverage;  // percent; default: the target's
  bool allow_over_budget = false;       // a shard above its budget is a warning
  bool digests = true;                  // read every byte of every file and compare its digest
};

struct CheckedNode {
  std::string folder;
  std::unique_ptr<CheckReport> report;
};

struct SplitCheck {
  std::vector<CheckedNode> nodes;
  Diagnostics findings;  // of the nodes together

  bool passed() const;
};

}  // namespace moec
