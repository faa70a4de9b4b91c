// Weights of a shard as matrices; those that a WeightPager manages, and the ops and runs that use
// them.
#pragma once

#include <map>
#include <optional>

#include "backends/reference/reference.h"
#include "backends/weights/views/held_view.h"
#include "backends/weights/views/weight_pager.h"
#include "backends/weights/views/weight_reader.h"
#include "ir/graph/shard.h"

namespace moec {

// A weight, or a transpose or reshape of a weight, with its view.
struct WeightMatrix {
  WeightView view;
  bool is_turned = false;  // the value is the view with its last two axes swapped
};

using WeightMatrices = IdVector<ValueId, std::optional<WeightMatrix>>;

// Returns the weights whose values are stored in a file. If `turns` is set, a transpose that swaps
// only the last two axes keeps the stored view and toggles is_turned; every other transpose becomes
// a step of the view.
WeightMatrices find_weight_matrices(const Shard& shard, bool turns);

// True if the permutation swaps the last two axes and keeps all others.
bool swaps_last_axes(const Dims& perm);

// True if the op can read the weight in this operand in its stored form.
bool reads_stored(const Shard& shard, const Op& op, size_t operand, bool is_turned);

struct PagedWeight {
  size_t unit = 0;
  HeldView view;
  bool is_turned = false;  // WeightMatrix::is_turned
  bool as_tensor = false;  // an op needs all elements as f32, e.g. as a bias
};

struct PagedWeights {
  IdVector<ValueId, std::optional<PagedWeight>> values;
  std::map<size_t, uint32_t> last_ops;  // unit → index of the last op that uses it
};

// Returns the weights whose bytes all belong to one unit, and their transposes and reshapes.
// Returns none if `pager` is null. Errors: those of WeightReader::cost().
Result<PagedWeights> find_paged(const Shard& shard, const WeightMatrices& matrices,
                                const WeightTable& table, const WeightPager* pager);

struct Program;

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
