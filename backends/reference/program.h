// A shard prepared for repeated runs: its weights are read, and values that are the same in each
// run are computed once.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/reference/eval.h"
#include "backends/reference/paged_weights.h"

namespace moec {

struct Program {
  Shard shard;
  ExecutorOptions options;
  IdMap<ValueId, uint8_t> is_fixed;  // 1: depends on weights and constants alone
  IdVector<ValueId, Tensor> fixed;   // the values that are fixed; the others are empty
  IdVector<ValueId, std::optional<StoredWeight>> stored;  // for these, `fixed` has the type alone
  PagedWeights paged;  // of these, `stored` is set while a run has their unit
  std::set<std::shared_ptr<const PayloadFile>> files;  // of the stored weights
  IdMap<ValueId, uint32_t> last_use;  // index of the last op that takes the value; 0: none does
  IdMap<ValueId, ValueId> turned;     // of a transposed right factor: what it is the transpose of
  std::map<std::string, Tensor, std::less<>> states;
  ExecutorMemory memory;
  bool releases_weights = false;  // after each op that takes them
};

Result<Program> load_program(const Shard& shard, const WeightReader& weights,
                             const ExecutorOptions& options);

void reset_states(Program& program);

// The inputs must have the number and types that the shard declares. Errors: those of the pager.
Result<std::vector<Tensor>> run_program(Program& program, const std::vector<const Tensor*>& inputs,
                                        const RunProbes& probes);

// The rounded results of an op that is neither a weight nor reads or writes a state.
std::vector<Tensor> eval_op(const Program& program, const Op& op,
                            std::vector<const Tensor*> operands, const RunProbes& probes = {});

}  // namespace moec
