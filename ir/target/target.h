// Targets are data (backends/targets/*.json): preferred forms, and rules about the ops and shards
// that a target refuses or handles badly, each with an id, a severity, a confidence and a source.
// ir/target/target_rules.h finds the rules that a shard breaks.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/base/enum_table.h"
#include "ir/graph/ops.h"
#include "ir/graph/shard.h"
#include "ir/graph/weight_form.h"
#include "ir/model/plan.h"

namespace moec {

// Sets of ops, named as in the text form.

class OpSet {
 public:
  // The op of a mnemonic ("add"), or all ops of a kind ("binary"); nothing for other names.
  static std::optional<OpSet> named(std::string_view name);

  OpSet& operator|=(const OpSet& other) { return bits_ |= other.bits_, *this; }
  bool contains(const OpData& data) const { return bits_[position(data)]; }
  bool empty() const { return bits_.none(); }
  bool operator==(const OpSet&) const = default;

  // The number of an op's mnemonic, below kPositions.
  static size_t position(const OpData& data);
  static constexpr size_t kFunctions = 16;  // enough for the functions of each kind
  static constexpr size_t kPositions = kOpKinds * kFunctions;

 private:
  std::bitset<kPositions> bits_;
};

enum class ProjectionForm : uint8_t { conv, matmul };
constexpr auto enum_names(ProjectionForm) { return name_table<ProjectionForm>({"conv", "matmul"}); }

enum class SumForm : uint8_t { chain, tree };
constexpr auto enum_names(SumForm) { return name_table<SumForm>({"chain", "tree"}); }

// All heads of an attention in one matmul, or a matmul for each head.
enum class AttentionForm : uint8_t { batched, per_head };
constexpr auto enum_names(AttentionForm) {
  return name_table<AttentionForm>({"batched", "per_head"});
}

// The file format of a target's shards.
enum class ShardFormat : uint8_t { onnx, coreml, gguf };
constexpr auto enum_names(ShardFormat) {
  return name_table<ShardFormat>({"onnx", "coreml", "gguf"});
}

// Names of a tensor's axes, from the right: [batch, channels, height, width], of which a tensor of
// lower rank lacks the first ones; with five axes [batch, channels, depth, height, width]. A
// vector is one of channels: a bias, a norm's weight.
enum class Axis : uint8_t { batch, channels, depth, height, width };
constexpr auto enum_names(Axis) {
  return name_table<Axis>({"batch", "channels", "depth", "height", "width"});
}
Axis axis_at(size_t rank, size_t index);

// The condition of a rule. "Its values" are an op's operands and results.
//   op_is              the op itself
//   dtype_is           one of its values has one of `dtypes`
//   rank_above         one of its values has more than `limit` axes
//   extent_above       one of its values is longer than `limit` along one of `axes`
//   operands_above     it has more than `limit` operands
//   constant_beyond    a constant holds a value of magnitude above `limit`, or one not finite
//   axis_is            it works along one of `axes`
//   slice_offset       a slice along one of `axes` does not begin at 0
//   matmul_within      no side of a matmul (M, K, N) is longer than `limit`
//   payload_near_mib   the weight bytes that a convolution streams to each of 16 cores,
//                      ceil(N/16)·C·K·bytes, lie within `limit` bytes of a multiple of 1 MiB
//   fused_activation   its operand is a projection (ir/analysis/fused_forms.h)
//   narrow_slice       a slice of the first `limit` or fewer of one token's (fused_forms.h)
//   coded_matmul_below a matmul by stored codes whose activations have fewer than `limit` axes
//   coded_matmul_uneven  a matmul by stored codes in blocks that do not divide its inputs
//   scalar_constant    one of its operands is a constant of one value
//   exp_below          an exp of a value that no maximum keeps from -`limit` on (fused_forms.h)
// Of a whole shard:
//   weight_bytes_above, weight_bytes_below   all its weights, in bytes
//   tokens_above       its file takes more than `limit` tokens at once
//   states_above       it has more than `limit` states
//   ports_unaligned    the last axis of an input or output is not a multiple of `limit` bytes
//   widths_ranged      its file takes a range of token widths
//   state_functions    its file has several functions, states, and more than one token
enum class RuleCondition : uint8_t {
  op_is,
  dtype_is,
  rank_above,
  extent_above,
  operands_above,
  constant_beyond,
  axis_is,
  slice_offset,
  matmul_within,
  payload_near_mib,
  fused_activation,
  narrow_slice,
  coded_matmul_below,
  coded_matmul_uneven,
  scalar_constant,
  exp_below,
  weight_bytes_above,
  weight_bytes_below,
  tokens_above,
  states_above,
  ports_unaligned,
  widths_ranged,
  state_functions
};
constexpr auto enum_names(RuleCondition) {
  return name_table<RuleCondition>({"op_is",
                                    "dtype_is",
                                    "rank_above",
                                    "extent_above",
                                    "operands_above",
                                    "constant_beyond",
                                    "axis_is",
                                    "slice_offset",
                                    "matmul_within",
                                    "payload_near_mib",
                                    "fused_activation",
                                    "narrow_slice",
                                    "coded_matmul_below",
                                    "coded_matmul_uneven",
                                    "scalar_constant",
                                    "exp_below",
                                    "weight_bytes_above",
                                    "weight_bytes_below",
                                    "tokens_above",
                                    "states_above",
                                    "ports_unaligned",
                                    "widths_ranged",
                                    "state_functions"});
}
constexpr bool concerns_shards(RuleCondition condition) {
  return condition >= RuleCondition::weight_bytes_above;
}

struct TargetRule {
  std::string id;  // "O1"
  RuleCondition condition = RuleCondition::op_is;
  OpSet ops = {};                  // that it looks at; empty: at all of them
  std::vector<DType> dtypes;       // with dtype_is
  std::vector<Axis> axes;          // where the condition has axes; empty: all of them
  std::vector<ShardKind> kinds;    // of a whole shard: that it looks at; empty: at all of them
  int64_t limit = 0;               // where the condition has a limit
  std::vector<std::string> chips;  // families that it holds for; empty: all of them
  Severity severity = Severity::error;
  // Where the op runs instead. Empty: nowhere if the rule is an error, else it stays.
  std::string unit;
  std::string reason, confidence, source;
};

// How a target takes weights of some forms (ir/graph/weight_form.h).
struct TargetWeightForms {
  // Texts of forms; "int4-lut:g*" stands for groups of any size.
  std::vector<std::string> forms;
  std::vector<ProjectionForm> projections;  // that it holds for; empty: all of them
  Severity severity = Severity::note;       // error: the forms are refused; else they are taken
  std::string reason, confidence, source;
  bool operator==(const TargetWeightForms&) const = default;
};

// Sizes above which passes split values, 0: no limit; and forms of ops that passes replace.
struct TargetLimits {
  int64_t channels = 0;  // of one convolution's inputs or outputs
  int64_t extent = 0;    // of the last two axes
  int64_t fan_in = 0;    // branches that one op may join
  bool no_casts = false;
  bool no_reciprocals = false;  // products with them are written as divisions
  bool guarded = false;         // activations are kept apart from the projections that they act on
  int64_t exp_below = 0;        // exponents are kept from its negative on
  int64_t narrow_slice = 0;     // slices up to this length are written as slices of blocks
  bool operator==(const TargetLimits&) const = default;
};

// Devices that have the same rules.
struct ChipFamily {
  std::string name;                // "a13"
  std::vector<std::string> chips;  // that belong to it, besides its own name: "m1"
  std::string about;
};

// Properties of the engine's implementation of ops, for which passes write graphs otherwise.
struct TargetEngine {
  // Whether its own sigmoid in f32 loses relative accuracy below 0 (passes/passes.h).
  bool expand_sigmoid = false;
  // Axes of the activations that matmuls with codes in blocks take: 2, [T, C], or 3, [1, T, C].
  int64_t coded_matmul_rank = 2;
};

struct Target {
  std::string name;  // "onnx"
  std::string unit;  // where ops run that no rule sends elsewhere: "onnxruntime"
  ShardFormat format = ShardFormat::onnx;
  DType dtype = DType::f32;  // of weights and activations, unless the user chooses another
  ProjectionForm projection = ProjectionForm::conv;
  SumForm sum = SumForm::chain;
  AttentionForm attention = AttentionForm::batched;
  bool has_state = false;
  int64_t min_coverage = 0;  // percent of the compute ops that must be predicted to run on `unit`
  std::vector<ChipFamily> chips;  // oldest first
  TargetLimits limits;
  std::vector<TargetRule> rules;
  std::vector<TargetWeightForms> weights;  // float is always taken; the first entry decides
  WeightForm four_bits;                    // of experts with --weights 4bit; float: none
  TargetEngine engine;
};

// The smallest sizes that rules of the target name: channels and extent from errors about all ops,
// fan-in from operands_above of any severity; no_casts and no_reciprocals from an error
// about those ops; guarded, exp_below and narrow_slice, the largest one, from errors of these
// conditions.
TargetLimits derive_limits(const std::vector<TargetRule>& rules);

// The target with the rules that hold for one chip, given as a family's name or as one of its
// chips, and their limits. Without this, rules of all families hold. Error target.unknown_chip
// names the known ones.
Result<Target> for_chip(Target target, std::string_view chip);

}  // namespace moec
