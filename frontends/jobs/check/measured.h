// Compares the predicted placement with the placement that a vendor's tools report, as recorded by
// scripts/confirm_on_mac.py, confirm_with_qnn.py and confirm_with_rknn.py.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "frontends/jobs/check/check_folder.h"

namespace moec {

struct MeasuredOp {
  std::string name, op;   // output or node in the file; kind, such as "ios17.conv"
  std::string preferred;  // "neural_engine", "cpu", "HTP"; empty: the tools report no device
  std::string message;    // reported reason for not using the unit, or empty
};

struct MeasuredGraph {
  std::string shard, digest;
  int64_t tokens = 0;
  std::string function;  // distinguishes functions with the same token width; may be empty
  std::vector<MeasuredOp> ops;
  std::string error;             // compiler error, if it rejected the whole file
  std::optional<double> cosine;  // minimum over outputs in an emulator
};

struct Measured {
  std::string chip;
  std::string engine;  // with version: "qnn 2.51.0", "Core ML of macOS 15.1"
  std::string tools;   // "onnxruntime-qnn 2.7.0, onnxruntime 1.32.0", "coremltools 9.0"
  std::vector<MeasuredGraph> graphs;
};

// Parses measured.json. Errors, with file and field: measured.open, measured.syntax,
// measured.field.
Result<Measured> parse_measured(std::string_view text, const std::string& file);
Result<Measured> read_measured(const std::string& path);

// An op whose measured device differs from the prediction.
struct Difference {
  std::string shard, op, kind;
  int64_t tokens = 0;
  std::string predicted, rule, measured, message;
  bool is_worse = false;  // predicted on the target's unit, measured elsewhere
};

// Numbers of ops that a rule predicted correctly and wrongly.
struct RuleScore {
  int64_t confirmed = 0, contradicted = 0;
};

struct PlacementComparison {
  int64_t ops = 0;        // ops of all files, except replaced ones
  int64_t confirmed = 0;  // ops measured on the target's unit
  int64_t replaced = 0;   // ops that the compiler replaced, such as a reshape with a transpose
  int64_t agreed = 0;
  int64_t unknown = 0;  // ops without a device, such as constants folded at load
  std::vector<Difference> differences;
  std::vector<const MeasuredGraph*> refused;  // files that the compiler rejected
  const MeasuredGraph* farthest = nullptr;    // graph with the minimum cosine in an emulator
  std::map<std::string, RuleScore> rules;

  // True if the compiler rejected a file, or if an op predicted on the target's unit was measured
  // elsewhere.
  bool is_worse() const;
};

// `measured` must outlive the result. Each measured op must have a counterpart in the shard, except
// ops that the emitter adds: const, constexpr, identity, Expand and DequantizeLinear. Errors:
// measured.other_export (a digest differs), measured.unknown_shard, measured.unknown_op.
Result<PlacementComparison> compare_placement(const CheckReport& report, const Measured& measured);

// Contains the machine, the ops whose device differs from the prediction, and the score of each
// rule.
nlohmann::ordered_json measured_json(const PlacementComparison& comparison,
                                     const Measured& measured);

}  // namespace moec
