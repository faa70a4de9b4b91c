// Weights of a pager that a run holds.
#include <iterator>

#include "backends/reference/program.h"
#include "backends/reference/rounding.h"
#include "backends/reference/tensor_pool.h"

namespace moec {

UnitsInUse::UnitsInUse(Program& program) : program_(program), pager_(program.options.pager) {}

UnitsInUse::~UnitsInUse() {
  for (const auto& [unit, bytes] : held_) pager_->release(unit);
}

bool UnitsInUse::bind(OpId op, IdMap<ValueId, Tensor>& tensors) {
  if (pager_ == nullptr || !program_.runs.reads_weights[op]) return true;
  bool all = true;
  for (const ValueId id : program_.shard.ops[op].operands) {
    if (!program_.paged.values[id]) continue;
    const HeldBytes* bytes = bytes_of(program_.paged.values[id]->unit);
    if (program_.paged.values[id]->as_tensor)
      tensors[id] = tensor_of(id, bytes);
    else if (bytes)
      bind_stored(id, bytes);
    else
      all = false;
  }
  return all;
}

void UnitsInUse::end(OpId op) {
  // erase() invalidates `unit`, so the loop continues with the iterator that erase() returns.
  for (auto unit = held_.begin(); unit != held_.end();) {
    const bool ends = program_.paged.last_ops.at(unit->first) <= op.index;
    if (ends) pager_->release(unit->first);
    unit = ends ? held_.erase(unit) : std::next(unit);
  }
}

// Returns null if the pager has no bytes for the unit in this run, or after an error. A null from
// the pager is stored, too, so that acquire() is called once per unit.
const HeldBytes* UnitsInUse::bytes_of(size_t unit) {
  if (const auto found = held_.find(unit); found != held_.end()) return found->second;
  // No further unit is acquired after an error, which the run reports after the op.
  if (!failure_) return nullptr;
  auto bytes = pager_->acquire(unit);
  if (!bytes) {
    failure_ = fail(std::move(bytes.error()));
    return nullptr;
  }
  return held_[unit] = *bytes;
}

void UnitsInUse::bind_stored(ValueId id, const HeldBytes* bytes) {
  const PagedWeight& weight = *program_.paged.values[id];
  const bool rounds =
      program_.options.precision == Precision::f16 && weight.view.type().dtype != DType::f16;
  program_.fixed[id].type = program_.shard.type(id);
  program_.stored[id].emplace(HeldValues{&weight.view, bytes, &failure_},
                              StoredForm{rounds, weight.is_turned});
}

// A missing unit reads as zeros, as if the expert were not part of the model.
Tensor UnitsInUse::tensor_of(ValueId id, const HeldBytes* bytes) {
  const Type& type = program_.shard.type(id);
  Tensor tensor = make_zeros(type);
  if (!bytes) return tensor;
  Status decoded =
      program_.paged.values[id]->view.widen(*bytes, 0, type.elements(), tensor.data.data());
  if (!decoded && failure_) failure_ = std::move(decoded);
  round_elements(tensor, program_.options.precision);
  return tensor;
}

}  // namespace moec
