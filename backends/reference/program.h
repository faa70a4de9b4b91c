// A shard made ready for repeated runs: weights read, and everything computed once that is the same
// in each run.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "backends/reference/eval.h"

namespace moec {

struct Program {
  Shard shard;
  ExecutorOptions options;
  IdMap<ValueId, uint8_t> is_fixed;   // 1: made of weights and constants alone
  IdVector<ValueId, Tensor> fixed;    // of the values that are
  IdMap<ValueId, uint32_t> last_use;  // index of the last op that takes the value; 0: none does
  std::map<std::string, Tensor, std::less<>> states;
};

Result<Program> load_program(const Shard& shard, const WeightReader& weights,
                             const ExecutorOptions& options);

void reset_states(Program& program);

// The inputs have been checked.
std::vector<Tensor> run_program(Program& program, const std::vector<Tensor>& inputs,
                                const Probe& probe);

// The results of an op, rounded. The op is no weight and touches no state.
std::vector<Tensor> eval_op(const Shard& shard, const Op& op, std::vector<const Tensor*> operands,
                            Precision precision);

}  // namespace moec
