// Targets are data (backends/targets/*.json): preferred forms, and rules about ops and shards that
// the target rejects or handles badly. Each rule has an id, a severity, a confidence and a source.
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

// A set of ops, named as in the text form.

class OpSet {
 public:
  // Returns the op of a mnemonic ("add"), or all ops of a kind ("binary"); empty for unknown names.
  static std::optional<OpSet> named(std::string_view name);

  OpSet& operator|=(const OpSet& other) { return bits_ |= other.bits_, *this; }
  bool contains(const OpData& data) const { return bits_[position(data)]; }
  bool empty() const { return bits_.none(); }
  bool operator==(const OpSet&) const = default;

  // Returns the index of an op's mnemonic, which is less than kPositions.
  static size_t position(const OpData& data);
  static constexpr size_t kFunctions = 16;  // at least the number of functions of each kind
  static constexpr size_t kPositions = kOpKinds * kFunctions;

 private:
  std::bitset<kPositions> bits_;
};

enum class ProjectionForm : uint8_t { conv, matmul };
constexpr auto enum_names(ProjectionForm) { return name_table<ProjectionForm>({"conv", "matmul"}); }

enum class SumForm : uint8_t { chain, tree };
constexpr auto enum_names(SumForm) { return name_table<SumForm>({"chain", "tree"}); }

// One matmul for all heads of an attention op, or one per head.
enum class AttentionForm : uint8_t { batched, per_head };
constexpr auto enum_names(AttentionForm) {
  return name_table<AttentionForm>({"batched", "per_head"});
}

// The file format of a target's shards.
enum class ShardFormat : uint8_t { onnx, coreml, gguf, tflite };
constexpr auto enum_names(ShardFormat) {
  return name_table<ShardFormat>({"onnx", "coreml", "gguf", "tflite"});
}

// Names of a tensor's axes, aligned to the right: [batch, channels, height, width] up to rank 4,
// [batch, channels, depth, height, width] with rank 5. The axis of a vector, such as a bias or a
// norm's weight, is channels.
enum class Axis : uint8_t { batch, channels, depth, height, width };
constexpr auto enum_names(Axis) {
  return name_table<Axis>({"batch", "channels", "depth", "height", "width"});
}
Axis axis_at(size_t rank, size_t index);

// The condition of a rule. The values of an op are its operands and results.
//   op_is              always true: the rule concerns the op itself
//   dtype_is           a value of the op has one of `dtypes`
//   rank_above         a value of the op has more than `limit` axes
//   extent_above       a value of the op is longer than `limit` along one of `axes`
//   operands_above     the op has more than `limit` operands
//   constant_beyond    a constant has an element of magnitude above `limit`, or not finite
//   axis_is            the op operates along one of `axes`
//   slice_offset       a slice along one of `axes` does not begin at 0
//   matmul_within      no side of a matmul (M, K, N) is longer than `limit`
//   payload_near_mib   the weight bytes that a convolution streams to each of 16 cores,
//                      ceil(N/16)·C·K·bytes, are within `limit` bytes of a multiple of 1 MiB
//   fused_activation   the operand is a projection (ir/analysis/fused_forms.h)
//   narrow_slice       a slice of at most `limit` leading values of one token (fused_forms.h)
//   coded_matmul_below a matmul with a quantized weight and activations of fewer than `limit` axes
//   coded_matmul_uneven  a matmul with a quantized weight whose blocks do not divide the inputs
//   scalar_constant    one of the operands is a constant with one element
//   exp_below          an exp whose operand has no lower bound of at least -`limit`
//                      (fused_forms.h)
//   grouped_conv       a convolution in several groups, each of several channels, with a value of
//                      one of `dtypes`
// For a whole shard:
//   weight_bytes_above, weight_bytes_below   the bytes of all weights
//   tokens_above       the file accepts more than `limit` tokens per run
//   states_above       the shard has more than `limit` states
//   ports_unaligned    the last axis of an input or output is not a multiple of `limit` bytes
//   widths_ranged      the file accepts a range of token widths
//   state_functions    the file has several functions, states, and more than one token
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
  grouped_conv,
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
                                    "grouped_conv",
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
  OpSet ops = {};                  // ops to check; empty: all
  std::vector<DType> dtypes;       // with dtype_is
  std::vector<Axis> axes;          // if the condition has axes; empty: all axes
  std::vector<ShardKind> kinds;    // for whole shards: kinds to check; empty: all kinds
  int64_t limit = 0;               // if the condition has a limit
  std::vector<std::string> chips;  // chip families of the rule; empty: all
  Severity severity = Severity::error;
  // The unit that runs the op instead. Empty: no unit if the rule is an error, else the target's
  // unit.
  std::string unit;
  std::string reason, confidence, source;
};

// Support of a target for some storage forms of weights (ir/graph/weight_form.h).
struct TargetWeightForms {
  // Texts of forms; "int4-lut:g*" matches groups of any size.
  std::vector<std::string> forms;
  std::vector<ProjectionForm> projections;  // projections to which this applies; empty: all
  Severity severity = Severity::note;       // error: the forms are rejected; else supported
  std::string reason, confidence, source;
  bool operator==(const TargetWeightForms&) const = default;
};

// Sizes above which passes split values (0: no limit), and properties of ops that passes must
// replace.
struct TargetLimits {
  int64_t channels = 0;  // inputs or outputs of one convolution
  int64_t extent = 0;    // of the last two axes
  int64_t fan_in = 0;    // operands of one op
  bool no_casts = false;
  bool no_reciprocals = false;  // a product with a reciprocal becomes a division
  bool guarded = false;         // activations are separated from their projections
  int64_t exp_below = 0;        // exponents are clamped to at least -exp_below
  int64_t narrow_slice = 0;     // slices up to this length become slices of blocks
  bool operator==(const TargetLimits&) const = default;
};

// A family of devices with the same rules.
struct ChipFamily {
  std::string name;                // "a13"
  std::vector<std::string> chips;  // further names of its chips: "m1"
  std::string about;
};

// Properties of the engine: those of its op implementations, to which passes adapt graphs, and the
// graphs that it loads.
struct TargetEngine {
  // True if the engine's f32 sigmoid loses relative accuracy for negative inputs (passes/passes.h).
  bool expand_sigmoid = false;
  // True if the engine has an op for mixtures of experts, `moe` (--routing op).
  bool has_moe = false;
  // True if the export is also one for an engine that runs whole models: a folder for
  // onnxruntime-genai, or with the format tflite a file for LiteRT-LM (backends/formats/litertlm).
  bool decoder_graph = false;
  // Rank that matmuls with block-quantized weights require of activations: 2 ([T, C]) or 3 ([1, T,
  // C]).
  int64_t coded_matmul_rank = 2;
  // True if the engine reads the matrices of projections as rows [N, K], as checkpoints store them.
  bool matrix_rows = false;
  // True if the engine is slow at matmuls with 4-bit codes whose zeros are floats (split_zeros).
  bool splits_zeros = false;
};

struct Target {
  std::string name;  // "onnx"
  std::string unit;  // runs every op for which no rule says otherwise: "onnxruntime"
  ShardFormat format = ShardFormat::onnx;
  DType dtype = DType::f32;  // of weights and activations, unless the user chooses another
  ProjectionForm projection = ProjectionForm::conv;
  SumForm sum = SumForm::chain;
  AttentionForm attention = AttentionForm::batched;
  bool has_state = false;
  int64_t min_coverage = 0;       // minimum percentage of compute ops predicted on `unit`
  std::vector<ChipFamily> chips;  // oldest first
  TargetLimits limits;
  std::vector<TargetRule> rules;
  std::vector<TargetWeightForms> weights;  // float is always supported; the first match applies
  WeightForm four_bits;                    // experts' form for --weights 4bit; float: none
  TargetEngine engine;
};

// Derives the limits from the rules; if several rules set a limit, the smallest applies. Channels
// and extent come from errors about all ops, fan-in from operands_above of any severity. no_casts
// and no_reciprocals come from errors about these ops. guarded, exp_below and narrow_slice come
// from errors with the matching conditions; for narrow_slice, the largest limit applies.
TargetLimits derive_limits(const std::vector<TargetRule>& rules);

// Restricts the target to the rules for `chip`, the name of a family or of one of its chips, and
// derives the limits again. Without a chip, the rules of all families apply. Error
// target.unknown_chip lists the known chips.
Result<Target> for_chip(Target target, std::string_view chip);

}  // namespace moec
