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

// The files that a target's shards are emitted as.
enum class ShardFormat : uint8_t { onnx, coreml };
constexpr std::array<std::string_view, 2> enum_names(ShardFormat) { return {"onnx", "coreml"}; }

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

// Sizes that passes split for; 0: no limit. load_target derives them from the target's rules.
struct TargetLimits {
  int64_t channels = 0;  // of one convolution's inputs or outputs
  int64_t extent = 0;    // of the last two axes
  int64_t fan_in = 0;    // branches that one op may join
  bool operator==(const TargetLimits&) const = default;
};

struct Target {
  std::string name;  // "onnx"
  std::string unit;  // where ops run that no rule concerns: "onnxruntime"
  ShardFormat format = ShardFormat::onnx;
  DType dtype = DType::f32;  // of weights and activations, unless the user chooses another
  ProjectionForm projection = ProjectionForm::conv;
  SumForm sum = SumForm::chain;
  bool has_state = false;
  TargetLimits limits;
  std::vector<TargetRule> rules;
};

// The first rule that an op breaks, if any.
const TargetRule* broken_rule(const Target& target, const Shard& shard, OpId op);

}  // namespace moec
