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
#include "backends/reference/gates.h"
#include "backends/reference/paged_weights.h"

namespace moec {

struct Program {
  Shard shard;
  ExecutorOptions options;
  IdMap<ValueId, uint8_t> is_fixed;         // 1: depends only on weights and constants
  IdMap<OpId, uint8_t> is_fixed_op;         // 1: all results are fixed, and there is one at least
  IdVector<OpId, std::vector<Type>> types;  // of the results of each op, as declared
  IdVector<ValueId, Tensor> fixed;          // values of fixed ids; the others are empty
  IdVector<ValueId, std::optional<StoredWeight>> stored;  // if set, `fixed` has only the type
  PagedWeights paged;  // `stored` is set for these while a run holds their unit
  std::set<std::shared_ptr<const PayloadFile>> files;  // files of the stored weights
  IdMap<ValueId, uint32_t> last_use;  // index of the last op that uses the value; 0: none
  IdMap<ValueId, ValueId> turned;     // transposed right factor → the operand of the transpose
  Gates gates;                        // empty without kernels for products
  std::map<std::string, Tensor, std::less<>> states;
  ExecutorMemory memory;
  bool releases_weights = false;  // after each op that uses them
};

Result<Program> load_program(const Shard& shard, const WeightReader& weights,
                             const ExecutorOptions& options);

void reset_states(Program& program);

// The number and types of inputs must match the shard. Errors: those of the pager.
Result<std::vector<Tensor>> run_program(Program& program, const std::vector<const Tensor*>& inputs,
                                        const RunProbes& probes);

// Returns the results of an op, rounded and of the given types. The op is not a weight and does not
// access a state.
std::vector<Tensor> eval_op(const Program& program, const Op& op,
                            std::vector<const Tensor*> operands, std::span<const Type> types,
                            const RunProbes& probes = {});

}  // namespace moec
