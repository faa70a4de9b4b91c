// Compares the placement that a vendor's own tools gave with the predicted one:
// scripts/confirm_on_mac.py, confirm_with_qnn.py and confirm_with_rknn.py write it.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/check/check_folder.h"

namespace moec {

struct MeasuredOp {
  std::string name, op;   // in the file: its output or node, "ios17.conv"
  std::string preferred;  // "neural_engine", "cpu", "HTP"; empty: the tools do not say
  std::string message;    // why it is not on the unit, where the tools say so
};

struct MeasuredGraph {
  std::string shard, digest;
  int64_t tokens = 0;
  std::string function;  // of several of the file that take as many tokens; may be empty
  std::vector<MeasuredOp> ops;
  std::string error;             // of the compiler, where it refused the file as a whole
  std::optional<double> cosine;  // the least of an output in an emulator
};

struct Measured {
  std::string chip;
  std::string engine;  // with its version: "qnn 2.51.0", "Core ML of macOS 15.1"
  std::string tools;   // "onnxruntime-qnn 2.7.0, onnxruntime 1.32.0", "coremltools 9.0"
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
  std::string predicted, rule, measured, message;
  bool is_worse = false;  // predicted on the target's unit, measured elsewhere
};

// How many ops a rule predicted rightly and wrongly.
struct RuleScore {
  int64_t confirmed = 0, contradicted = 0;
};

struct PlacementComparison {
  int64_t ops = 0;        // of all files, but for those that were replaced
  int64_t confirmed = 0;  // of them, on the target's unit
  int64_t replaced = 0;   // ops for which the compiler has others, as a transpose for a reshape
  int64_t agreed = 0;
  int64_t unknown = 0;  // ops that have no device, for example constants folded at load
  std::vector<Difference> differences;
  std::vector<const MeasuredGraph*> refused;  // files that the compiler refused as a whole
  const MeasuredGraph* farthest = nullptr;    // the least cosine in an emulator
  std::map<std::string, RuleScore> rules;

  // Whether a file was refused, or an op measured elsewhere that was predicted on the target's
  // unit.
  bool is_worse() const;
};

// `measured` must outlive the result. Each measured op must have a counterpart in the shard, except
// those that moec adds to a file: const, constexpr, identity, Expand and DequantizeLinear. Errors:
// measured.other_export (a digest differs), measured.unknown_shard, measured.unknown_op.
Result<PlacementComparison> compare_placement(const CheckReport& report, const Measured& measured);

// The machine, the ops that were measured elsewhere than predicted, and the score of each rule.
nlohmann::ordered_json measured_json(const PlacementComparison& comparison,
                                     const Measured& measured);

}  // namespace moec
