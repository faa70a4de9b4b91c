// A shard prepared for repeated runs: its weights are read, and values that do not change between
// runs are computed once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/reference/eval.h"
#include "backends/reference/fused_ops.h"
#include "backends/reference/gates.h"
#include "backends/reference/paged_weights.h"
#include "backends/reference/tensor_pool.h"
#include "backends/reference/weight_products.h"

namespace moec {

enum class StepKind : uint8_t { op, fused, products, parts };

// An op that a run evaluates, or several at once.
struct RunStep {
  OpId op;  // of several: the last of a fused op and of a sum of parts, the first of products
  StepKind kind = StepKind::op;
  uint32_t index = 0;  // in the list of PlannedRuns of this kind
  // Values that no later step uses: a range of RunPlan::dropped.
  uint32_t first_dropped = 0, end_dropped = 0;
  // Of the first step of a gated part: the step after the part, with which a run continues if the
  // gate selects nothing. 0: the run needs the other steps of the part.
  uint32_t after_closed = 0;
};

// The steps of a run in order. They lie together in memory, because weights displace everything
// else from the caches between two products.
struct RunPlan {
  std::vector<RunStep> steps;
  std::vector<ValueId> dropped;
};

// Parts of a step of one token that differ only in their weights, and the sum of their results. A
// run computes the first step of each open part, then the second of each, and so on, so that their
// products run together.
struct JointParts {
  struct Part {
    uint32_t gate = 0;
    // Operand of the gate's slice, and the index of the element that the slice selects. Invalid if
    // the gate is an input.
    ValueId weights;
    size_t index = 0;
    std::vector<RunStep> steps;
    std::vector<ValueId> values;  // that the steps compute
  };
  uint32_t sum = 0;  // index in PlannedRuns::fused
  std::vector<Part> parts;
};

struct PlannedRuns {
  IdMap<OpId, uint8_t> reads_weights;  // 1: an operand is stored or in a unit of the pager
  // Empty without kernels for products.
  std::vector<FusedOp> fused;
  std::vector<ProductGroup> products;
  std::vector<JointParts> parts;
  IdMap<ValueId, uint8_t> is_summed;  // 1: a plain run needs only the selected elements
  RunPlan plain;                      // of runs without a probe of values
  RunPlan probed;                     // of the others: all ops, none of them fused
  IdMap<ValueId, Tensor> values;      // of the run in progress; empty between runs
  std::vector<const Tensor*> places;  // per value of the run in progress: see RunValues
};

struct Program {
  Shard shard;
  ExecutorOptions options;
  IdMap<ValueId, uint8_t> is_fixed;         // 1: depends only on weights and constants
  IdVector<OpId, std::vector<Type>> types;  // of the results of each op, as declared
  IdVector<ValueId, Tensor> fixed;          // values of fixed ids; the others are empty
  IdVector<ValueId, std::optional<StoredWeight>> stored;  // if set, `fixed` has only the type
  PagedWeights paged;  // `stored` is set for these while a run holds their unit
  std::set<std::shared_ptr<const PayloadFile>> files;  // files of the stored weights
  IdMap<ValueId, uint32_t> last_use;  // index of the last op that uses the value; 0: none
  IdMap<ValueId, ValueId> turned;     // transposed right factor → the operand of the transpose
  Gates gates;                        // empty without kernels for products
  PlannedRuns runs;
  std::map<std::string, Tensor, std::less<>> states;
  ExecutorMemory memory;
  bool releases_weights = false;  // after each op that uses them
};

// The program of a shard whose weights are not read, with the plan of its runs: for forecasts. All
// weights count as values in memory.
Program plan_program(const Shard& shard, const Products& products);

Result<Program> load_program(const Shard& shard, const WeightReader& weights,
                             const ExecutorOptions& options);

// The values that a step computes, except for those inside of fused ops and joint parts.
std::vector<ValueId> results_of(const Program& program, const RunStep& step);

// The stored and paged weights and the gates must be known.
WeightProducts find_weight_products(const Program& program);

// Extends the last uses of values to an op.
void keep_until(Program& program, OpId op, std::span<const ValueId> values);

// Moves the steps of parts that a run computes together to `runs.parts`, in the place of their sum.
void join_parts(Program& program, std::vector<RunStep>& steps);

// Sets `runs`, the cores of gates, and the last uses of what cores and fused ops read. The values
// that are fixed, stored, paged, turned and gated must be known.
void plan_runs(Program& program);

void reset_states(Program& program);

// Counts the memory of the program. Rejects excessive sizes before anything is allocated.
Status check_memory(Program& program);
// Records the coded weights that are held as f32 although they are large.
void note_widened(Program& program);

// The number and types of inputs must match the shard. Errors: those of the pager.
Result<std::vector<Tensor>> run_program(Program& program, const std::vector<const Tensor*>& inputs,
                                        const RunProbes& probes);

// Puts the results of an op, rounded and of the given types, into `results`, which must be empty.
// The op is not a weight and does not access a state.
void eval_op(const Program& program, OpId id, const std::vector<const Tensor*>& operands,
             std::span<const Type> types, const RunProbes& probes, std::vector<Tensor>& results);

// True if the value exists before a run: it is fixed, or a weight of the pager.
inline bool is_brought(const Program& program, ValueId id) {
  return program.is_fixed[id] != 0 || program.paged.values[id].has_value();
}

// The values of a run: inputs, states, what exists before the run, and what the run has computed.
class RunValues {
 public:
  explicit RunValues(Program& program);
  RunValues(const RunValues&) = delete;
  RunValues& operator=(const RunValues&) = delete;
  // Clears values that an error has left.
  ~RunValues();

  // Uses an input in place unless it has another type or must be rounded.
  void define(ValueId id, const Tensor& input);
  void refer(ValueId id, const Tensor& state) { at_[id.index] = &state; }
  void put(ValueId id, Tensor value);
  // Moves the results of an op.
  void take(const Op& op, std::vector<Tensor>& results);
  // Frees a value that the run has computed.
  void drop(ValueId id) {
    // Most values are dropped without a tensor, as results of closed parts.
    if (own(id).elements() != 0) recycle(std::move(own(id)));
  }

  // Not of a weight in a slot that is decoded for the op, whose elements are in own().
  const Tensor& at(ValueId id) const;
  // The value with all elements as f32. Widens halves, which later ops of the run then reuse.
  const Tensor& whole(ValueId id);
  bool is_known(ValueId id) const { return at_[id.index] != nullptr; }
  bool is_own(ValueId id) const { return at_[id.index] == &program_.runs.values[id]; }
  Tensor& own(ValueId id) { return program_.runs.values[id]; }
  IdMap<ValueId, Tensor>& own() { return program_.runs.values; }
  // Moves the outputs. The values are then used up.
  std::vector<Tensor> outputs();

 private:
  Program& program_;
  // Points to a state, an input, or an element of PlannedRuns::values; null for other values.
  std::vector<const Tensor*>& at_;
  bool is_finished_ = false;
};

// Units of the pager that a run holds, each from its first to its last use.
class UnitsInUse {
 public:
  explicit UnitsInUse(Program& program);
  UnitsInUse(const UnitsInUse&) = delete;
  UnitsInUse& operator=(const UnitsInUse&) = delete;
  // After an error some units are still held. They must be released, or the pager could not evict
  // them.
  ~UnitsInUse();

  // Binds the operands of an op that come from units. Returns true if all are available: not if a
  // unit has no part in this run, and not after an error. Puts operands that the op needs as
  // tensors into `tensors`, as zeros if they are unavailable.
  bool bind(OpId op, IdMap<ValueId, Tensor>& tensors);
  // Releases the units that no op after this one uses.
  void end(OpId op);
  const Status& failure() const { return failure_; }

 private:
  const HeldBytes* bytes_of(size_t unit);
  void bind_stored(ValueId id, const HeldBytes* bytes);
  Tensor tensor_of(ValueId id, const HeldBytes* bytes);

  Program& program_;
  WeightPager* pager_;
  std::map<size_t, const HeldBytes*> held_;
  Status failure_;
};

}  // namespace moec
