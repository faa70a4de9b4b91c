// Compares the placement that scripts/confirm_on_mac.py measured with the predicted one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontends/check/check_folder.h"

namespace moec {

struct MeasuredOp {
  std::string name, op;   // in the package: its output, "ios17.conv"
  std::string preferred;  // "neural_engine", "cpu", "gpu"; empty: Core ML does not say
};

struct MeasuredGraph {
  std::string shard, digest;
  int64_t tokens = 0;
  std::vector<MeasuredOp> ops;
};

struct Measured {
  std::string chip, macos, coremltools;
  std::vector<MeasuredGraph> graphs;
};

// measured.json. Errors: measured.open, measured.syntax, measured.field, which name the file and
// the field.
Result<Measured> parse_measured(std::string_view text, const std::string& file);
Result<Measured> read_measured(const std::string& path);

// An op that was measured on another device than predicted.
struct Difference {
  std::string shard, op, kind;
  int64_t tokens = 0;
  std::string predicted, rule, measured;
  bool is_worse = false;  // predicted on the target's unit, measured elsewhere
};

// How many ops a rule predicted rightly and wrongly.
struct RuleScore {
  int64_t confirmed = 0, contradicted = 0;
};

struct PlacementComparison {
  int64_t agreed = 0;
  int64_t unknown =
      0;  // ops that Core ML names no device for, for example constants folded at load
  std::vector<Difference> differences;
  std::map<std::string, RuleScore> rules;

  // Whether an op that was predicted on the target's unit was measured elsewhere.
  bool is_worse() const;
};

// Each measured op must have a counterpart in the shard, except those that moec adds to a package:
// const, constexpr and identity. Errors: measured.other_export (a digest differs),
// measured.unknown_shard, measured.unknown_op.
Result<PlacementComparison> compare_placement(const CheckReport& report, const Measured& measured);

}  // namespace moec
