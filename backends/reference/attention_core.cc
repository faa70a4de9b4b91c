#include "backends/reference/attention_core.h"

#include <algorithm>
#include <array>
#include <vector>

#include "backends/reference/paged_weights.h"
#include "backends/reference/tensor_pool.h"

namespace moec {
namespace {

class CoreFinder {
 public:
  CoreFinder(const Shard& shard, const Gates& gates, uint32_t number)
      : shard_(shard), gates_(gates), number_(number) {}

  std::optional<AttentionCore> find() {
    const Gate& gate = gates_.gates[number_];
    if (gate.along != GateAxis::keys) return {};
    AttentionCore core{.op = OpId{gate.last_op}, .mask = gate.weights};
    const Op* product = inner(core.op);
    if (!is<MatMul>(product)) return {};
    const Op* softmax = past_reshapes(product->operands[0]);
    if (!is<Softmax>(softmax)) return {};
    const Op* sum = inner(shard_.values[softmax->operands[0]].producer);
    if (!is_add(sum) || sum->operands[1] != core.mask) return {};
    const Op* scores = past_reshapes(sum->operands[0]);
    if (!is<MatMul>(scores)) return {};
    const Op* turned = inner(shard_.values[scores->operands[1]].producer);
    const auto* transpose = turned ? std::get_if<Transpose>(&turned->data) : nullptr;
    if (transpose == nullptr || !swaps_last_axes(transpose->perm)) return {};
    core.queries = scores->operands[0];
    const bool joins = rows(turned->operands[0], core.old_keys, core.new_keys) &&
                       rows(product->operands[1], core.old_values, core.new_values);
    if (!joins || !fits(core) || seen_ != ops_of_part()) return {};
    return core;
  }

 private:
  template <class OpT>
  static bool is(const Op* op) {
    return op != nullptr && std::holds_alternative<OpT>(op->data);
  }
  static bool is_add(const Op* op) {
    return is<Binary>(op) && std::get<Binary>(op->data).fn == BinaryFn::add;
  }

  // An op of the part, or null.
  const Op* inner(OpId id) {
    if (!id.valid() || gates_.of_op[id] != number_) return nullptr;
    ++seen_;
    return &shard_.ops[id];
  }

  const Op* past_reshapes(ValueId id) {
    const Op* op = inner(shard_.values[id].producer);
    while (is<Reshape>(op)) op = inner(shard_.values[op->operands[0]].producer);
    return op;
  }

  // A cache followed by new rows, both from outside of the part.
  bool rows(ValueId id, ValueId& old_rows, ValueId& new_rows) {
    const Op* op = inner(shard_.values[id].producer);
    if (!is<Concat>(op) || op->operands.size() != 2) return false;
    if (std::get<Concat>(op->data).axis != 2) return false;
    old_rows = op->operands[0];
    new_rows = op->operands[1];
    return gates_.of_value[old_rows] != number_ && gates_.of_value[new_rows] != number_;
  }

  const Dims& dims(ValueId id) const { return shard_.type(id).dims; }

  // The sizes are those of CoreTensors, and no op rounds its result to another type.
  bool fits(const AttentionCore& core) const {
    for (const ValueId id : {core.queries, core.old_keys, core.new_keys, core.old_values,
                             core.new_values, core.mask, shard_.ops[core.op].results[0]})
      if (dims(id).rank() != 4 || dims(id)[0] != 1 || shard_.type(id).dtype != DType::f32)
        return false;
    // Scores that the mask expands have more rows than the queries.
    const Dims& result = dims(shard_.ops[core.op].results[0]);
    if (result[2] != dims(core.queries)[2] || result[3] != dims(core.old_values)[3]) return false;
    const int64_t tokens = dims(core.mask)[2], heads = dims(core.old_keys)[1];
    const bool same_heads = std::all_of(
        kHeads.begin(), kHeads.end(), [&](auto member) { return dims(core.*member)[1] == heads; });
    return same_heads && dims(core.new_keys)[2] == tokens && dims(core.new_values)[2] == tokens &&
           dims(core.queries)[2] % tokens == 0 &&
           dims(core.mask)[3] == dims(core.old_keys)[2] + tokens;
  }

  int64_t ops_of_part() const {
    int64_t count = 0;
    for (const OpId id : op_ids(shard_)) count += gates_.of_op[id] == number_ ? 1 : 0;
    return count;
  }

  static constexpr std::array kHeads = {&AttentionCore::queries, &AttentionCore::old_keys,
                                        &AttentionCore::new_keys, &AttentionCore::old_values,
                                        &AttentionCore::new_values};
  const Shard& shard_;
  const Gates& gates_;
  uint32_t number_;
  int64_t seen_ = 0;
};

// Consecutive selected keys, all of a cache or all new.
struct KeyRun {
  bool is_new = false;
  int64_t first = 0, count = 0;  // rows of the cache, or of the new rows
  int64_t at = 0;                // number of selected keys before
};

std::vector<KeyRun> runs_of(const OpenGate& open, int64_t cached, int64_t all) {
  std::vector<KeyRun> runs;
  const auto add = [&](int64_t key, int64_t at) {
    const bool is_new = key >= cached;
    const int64_t row = is_new ? key - cached : key;
    if (!runs.empty() && runs.back().is_new == is_new &&
        runs.back().first + runs.back().count == row)
      ++runs.back().count;
    else
      runs.push_back({is_new, row, 1, at});
  };
  const int64_t count = open.all ? all : std::ssize(open.indices);
  for (int64_t i = 0; i < count; ++i) add(open.all ? i : open.indices[static_cast<size_t>(i)], i);
  return runs;
}

// Memory of a thread for one head at a time.
struct HeadMemory {
  std::vector<float> scores, part, sums, widened;
};

class Core {
 public:
  Core(const CoreTensors& tensors, const OpenGate& open, const Products& products)
      : tensors_(tensors), products_(products) {
    const Dims& queries = tensors.queries->type.dims;
    heads_ = queries[1];
    rows_ = queries[2];
    dims_ = queries[3];
    value_dims_ = tensors.old_values->type.dims[3];
    cached_ = tensors.old_keys->type.dims[2];
    tokens_ = tensors.new_keys->type.dims[2];
    runs_ = runs_of(open, cached_, cached_ + tokens_);
    keys_ = runs_.back().at + runs_.back().count;
  }

  Tensor operator()(const Type& type) const {
    Tensor result = make_tensor(type);
    const auto compute = [&](int64_t begin, int64_t end) {
      HeadMemory memory;
      memory.scores.resize(static_cast<size_t>(rows_ * keys_));
      memory.part.resize(static_cast<size_t>(rows_ * std::max(keys_, value_dims_)));
      memory.sums.resize(static_cast<size_t>(rows_ * value_dims_));
      for (int64_t head = begin; head < end; ++head)
        attend(head, memory, result.data.data() + head * rows_ * value_dims_);
    };
    // A head multiplies its queries by keys, then its probabilities by values. Kernels divide large
    // products among threads; if those of a head are too small, threads share the heads.
    const int64_t products = rows_ * keys_ * dims_;
    if (products < Products::kSmallProduct && 2 * heads_ * products >= Products::kSmallProduct)
      products_.divide(heads_, compute);
    else
      compute(0, heads_);
    return result;
  }

 private:
  void attend(int64_t head, HeadMemory& memory, float* out) const {
    score(head, memory);
    products_.divide_lines(rows_, keys_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        weigh((head * rows_ + row) % tokens_, memory.scores.data() + row * keys_);
    });
    add_values(head, memory, out);
  }

  // The rows of a run: in place, or widened if the cache stores halves.
  static const float* rows_of(const Tensor& old_rows, const Tensor& new_rows, int64_t head,
                              const KeyRun& run, std::vector<float>& widened) {
    const Tensor& from = run.is_new ? new_rows : old_rows;
    const Dims& dims = from.type.dims;
    const int64_t at = (head * dims[2] + run.first) * dims[3];
    if (from.halves.empty()) return from.data.data() + at;
    const int64_t count = run.count * dims[3];
    widened.resize(std::max(widened.size(), static_cast<size_t>(count)));
    copy_elements(from, at, count, widened.data());
    return widened.data();
  }

  void score(int64_t head, HeadMemory& memory) const {
    const float* queries = tensors_.queries->data.data() + head * rows_ * dims_;
    for (const KeyRun& run : runs_) {
      const float* keys =
          rows_of(*tensors_.old_keys, *tensors_.new_keys, head, run, memory.widened);
      products_.multiply({queries}, {keys}, true, {rows_, dims_, run.count}, memory.part.data());
      for (int64_t row = 0; row < rows_; ++row)
        std::copy_n(memory.part.data() + row * run.count, run.count,
                    memory.scores.data() + row * keys_ + run.at);
    }
  }

  // Turns the scores of a row into probabilities.
  void weigh(int64_t token, float* scores) const {
    const float* mask = tensors_.mask->data.data() + token * (cached_ + tokens_);
    for (const KeyRun& run : runs_) {
      const float* from = mask + (run.is_new ? cached_ : 0) + run.first;
      for (int64_t i = 0; i < run.count; ++i) scores[run.at + i] += from[i];
    }
    products_.softmax(scores, keys_, scores);
  }

  void add_values(int64_t head, HeadMemory& memory, float* out) const {
    std::fill_n(out, rows_ * value_dims_, 0.0f);
    for (const KeyRun& run : runs_) {
      for (int64_t row = 0; row < rows_; ++row)
        std::copy_n(memory.scores.data() + row * keys_ + run.at, run.count,
                    memory.part.data() + row * run.count);
      const float* values =
          rows_of(*tensors_.old_values, *tensors_.new_values, head, run, memory.widened);
      products_.multiply({memory.part.data()}, {values}, false, {rows_, run.count, value_dims_},
                         memory.sums.data());
      for (size_t i = 0; i < memory.sums.size(); ++i) out[i] += memory.sums[i];
    }
  }

  const CoreTensors& tensors_;
  const Products& products_;
  std::vector<KeyRun> runs_;
  int64_t heads_ = 0, rows_ = 0, dims_ = 0, value_dims_ = 0, cached_ = 0, tokens_ = 0, keys_ = 0;
};

}  // namespace

std::optional<AttentionCore> find_attention_core(const Shard& shard, const Gates& gates,
                                                 uint32_t gate) {
  return CoreFinder(shard, gates, gate).find();
}

Tensor eval_core(const CoreTensors& core, const OpenGate& open, const Products& products,
                 const Type& type) {
  return Core(core, open, products)(type);
}

}  // namespace moec
