// Targets are data (backends/targets/*.json): what a target prefers, and rules that say which ops
// it does not take, each with number, severity, confidence and source.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/diagnostics.h"
#include "ir/shard.h"

namespace moec {

enum class ProjectionForm : uint8_t { conv, matmul };
constexpr std::array<std::string_view, 2> enum_names(ProjectionForm) { return {"conv", "matmul"}; }

enum class SumForm : uint8_t { chain, tree };
constexpr std::array<std::string_view, 2> enum_names(SumForm) { return {"chain", "tree"}; }

enum class RuleCondition : uint8_t { op_is, dtype_is, rank_above, extent_above };
constexpr std::array<std::string_view, 4> enum_names(RuleCondition) {
  return {"op_is", "dtype_is", "rank_above", "extent_above"};
}

// A rule fires for an op when its condition holds for the op or for one of its results, and `ops`
// is empty or names the op or its kind.
struct TargetRule {
  std::string id;  // "O1"
  RuleCondition condition = RuleCondition::op_is;
  std::vector<std::string> names;  // op mnemonics or dtypes, with op_is and dtype_is
  int64_t limit = 0;               // with rank_above and extent_above
  Severity severity = Severity::error;
  std::string unit;  // where the op runs instead; empty: nowhere
  std::string reason, confidence, source;
  std::vector<std::string> ops;
};

struct Target {
  std::string name;  // "onnx"
  std::string unit;  // where ops run that no rule concerns: "onnxruntime"
  ProjectionForm projection = ProjectionForm::conv;
  SumForm sum = SumForm::chain;
  bool has_state = false;
  std::vector<TargetRule> rules;
};

// The first rule that an op breaks, if any.
const TargetRule* broken_rule(const Target& target, const Shard& shard, OpId op);

}  // namespace moec
