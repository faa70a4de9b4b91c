#include "frontends/jobs/plan/shard_work.h"

#include <algorithm>
#include <set>

#include "backends/cpu/cpu_products.h"
#include "backends/reference/program.h"
#include "ir/analysis/cost.h"
#include "ir/base/at.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

// The weight whose values an operand has, perhaps in another order; invalid if there is none.
ValueId weight_behind(const Shard& shard, ValueId id) {
  while (shard.producer_as<Transpose>(id) || shard.producer_as<Reshape>(id))
    id = shard.ops[shard.values[id].producer].operands[0];
  return shard.producer_as<Weight>(id) ? id : ValueId();
}

// The kind of an op's work on elements. Products are counted separately.
struct WorkKind {
  ElementWork operator()(const Unary& op) const {
    switch (op.fn) {
      case UnaryFn::neg:
      case UnaryFn::abs:
      case UnaryFn::sqrt:
      case UnaryFn::reciprocal:
        return ElementWork::arithmetic;
      case UnaryFn::exp:
      case UnaryFn::log:
      case UnaryFn::sigmoid:
      case UnaryFn::tanh:
      case UnaryFn::erf:
        break;
    }
    return ElementWork::exponential;
  }
  ElementWork operator()(const Softmax&) const { return ElementWork::exponential; }
  ElementWork operator()(const OneOf<Binary, Compare, Select, Cast> auto&) const {
    return ElementWork::arithmetic;
  }
  ElementWork operator()(const OneOf<Reduce, TopK> auto&) const { return ElementWork::reduce; }
  ElementWork operator()(const Transpose&) const { return ElementWork::transpose; }
  // A kernel along the tokens is applied per channel, element by element.
  ElementWork operator()(const OneOf<Conv, MatMul, Moe> auto&) const {
    return ElementWork::arithmetic;
  }
  ElementWork operator()(const OneOf<Slice, Concat, Reshape, StateWrite> auto&) const {
    return ElementWork::move;
  }
  // Form `placed` has no composites. Sources and reads of states move nothing.
  ElementWork operator()(const OneOf<Attention, GatedMlp, RmsNorm, Router, SoftMoe, Linear, Weight,
                                     Constant, StateRead> auto&) const {
    return ElementWork::move;
  }
};

// Length of the overlap of [a, b) and [c, d).
double overlap(double a, double b, double c, double d) {
  return std::max(0.0, std::min(b, d) - std::max(a, c));
}

class Counter {
 public:
  Counter(const Program& program, const WorkSetting& setting)
      : program_(program),
        shard_(program.shard),
        setting_(setting),
        gates_(program.gates),
        uses_(count_uses(shard_)) {}

  ShardWork run() {
    for (const RunStep& step : program_.runs.plain.steps) count_step(step);
    count_ports();
    return std::move(work_);
  }

 private:
  // A step counts as one op, even if it computes several.
  void count_step(const RunStep& step) {
    gate_ = gates_.of_op[step.op];
    const double times = times_of_gate();
    work_.ops += times;
    // A closed part costs one step at most, if the run can skip the others.
    if (!skipped_.contains(gate_)) work_.idle_ops += 1 - times;
    if (step.after_closed != 0) skipped_.insert(gate_);
    switch (step.kind) {
      case StepKind::op:
        return count_core_or_op(step.op, times);
      case StepKind::fused:
        return count_fused(program_.runs.fused[step.index], times);
      case StepKind::products:
        for (const WeightProduct& product : program_.runs.products[step.index])
          count_op(product.op, times);
        return;
      case StepKind::parts:
        return count_parts(program_.runs.parts[step.index]);
    }
  }

  // The core of attention computes all ops of its gate, and reads the keys in place.
  void count_core_or_op(OpId id, double times) {
    if (gate_ == Gates::kNone || !gates_.gates[gate_].core) return count_op(id, times);
    for (const OpId inner : op_ids(shard_)) {
      if (gates_.of_op[inner] != gate_) continue;
      const OpData& data = shard_.ops[inner].data;
      if (std::holds_alternative<Concat>(data) || std::holds_alternative<Transpose>(data) ||
          std::holds_alternative<Reshape>(data))
        continue;
      count_op(inner, times);
    }
  }

  void count_fused(const FusedOp& fused, double times) {
    if (fused.kind == FusedKind::sum) return count_sum(fused);
    for (const OpId id : fused.ops) count_op(id, times);
  }

  // The sum begins with zeros and adds the elements that gates selected.
  void count_sum(const FusedOp& sum) {
    for (const ValueId id : sum.operands) {
      gate_ = program_.runs.is_summed[id] ? gates_.of_value[id] : Gates::kNone;
      add(ElementWork::arithmetic, times_of_gate() * selected(id));
    }
    gate_ = Gates::kNone;
    add(ElementWork::move, selected(sum.operands.front()));
  }

  // Closed parts cost nothing; an open one computes its slice.
  void count_parts(const JointParts& joint) {
    for (const JointParts::Part& part : joint.parts) {
      gate_ = part.gate;
      if (gates_.gates[gate_].slice.valid()) work_.ops += times_of_gate();
      skipped_.insert(gate_);
      for (const RunStep& step : part.steps) count_step(step);
    }
    count_sum(program_.runs.fused[joint.sum]);
  }

  // Expected runs of the current part per run of the shard.
  double times_of_gate() const { return is_token_gate() ? setting_.expert_chance : 1; }

  void count_op(OpId id, double times) {
    const Op& op = shard_.ops[id];
    if (gate_ != Gates::kNone) count_gate(op, times);
    if (is_product(op)) return count_product(op, times);
    if (std::holds_alternative<Moe>(op.data)) return count_experts(op);
    if (reads_state(op.data) || ends_in_reshape(op)) return;
    // A reduction reads more elements than it returns.
    const bool reads = std::holds_alternative<Reduce>(op.data) ||
                       std::holds_alternative<TopK>(op.data) || op.results.empty();
    const ValueId counted = reads ? op.operands.front() : op.results.front();
    double elements = selected(counted);
    if (std::holds_alternative<Conv>(op.data) || std::holds_alternative<MatMul>(op.data))
      elements = static_cast<double>(count_macs(shard_, op)) * share(counted);
    add(std::visit(WorkKind(), op.data), times * elements);
  }

  bool is_token_gate() const {
    return gate_ != Gates::kNone && gates_.gates[gate_].along == GateAxis::tokens;
  }

  // Counts what a gated part gathers from outside, and the zeros of results that leave it.
  void count_gate(const Op& op, double times) {
    for (const ValueId id : op.results)
      if (is_token_gate() && gates_.leaves[id] && !program_.runs.is_summed[id])
        add(ElementWork::move, static_cast<double>(shard_.type(id).elements()));
    // A concatenation copies the selected rows directly into its result. A gate that selects
    // everything gathers nothing.
    if (std::holds_alternative<Concat>(op.data)) return;
    for (const ValueId id : op.operands) {
      const bool is_inside = gates_.of_value[id] == gate_ && !gates_.leaves[id];
      if (is_inside || program_.is_fixed[id] || share(id) >= 1) continue;
      if (gathered_.insert({gate_, id}).second) add(ElementWork::move, times * selected(id));
    }
  }

  // True for products that the kernels of the engine compute. A convolution along the tokens is not
  // one of them.
  bool is_product(const Op& op) const {
    if (std::holds_alternative<MatMul>(op.data)) return true;
    if (!std::holds_alternative<Conv>(op.data)) return false;
    const Dims& kernel = shard_.type(op.operands[1]).dims;
    return kernel[2] * kernel[3] == 1;
  }

  void count_product(const Op& op, double times) {
    double part = share(op.results.front());
    for (const ValueId id : op.operands) part = std::min(part, share(id));
    const double macs = static_cast<double>(count_macs(shard_, op)) * part;
    for (size_t i = 0; i < 2; ++i)
      if (program_.is_fixed[op.operands[i]]) return count_weight(op, i, {macs, times});
    const double left = selected(op.operands[0]), right = selected(op.operands[1]);
    const double weights = std::max({left, right, 1.0});
    work_.activations.push_back({weights, macs / weights, times});
  }

  struct Executed {
    double macs = 0, times = 1;
  };

  // The engine computes the experts that tokens of the run chose, each for these tokens.
  void count_experts(const Op& op) {
    const auto of = moe_operands(op.operands);
    const auto experts = static_cast<double>(channels_of(shard_.type(of.routing)));
    for (const ValueId id : {of.gate_up, of.down}) {
      const auto* weight = shard_.producer_as<Weight>(id);
      const Type& type = shard_.type(id);
      ProductWork product;
      if (weight) product.encoding = weight->encoding;
      product.dtype = type.dtype;
      product.inner = type.dims.back();
      product.weights = static_cast<double>(type.elements()) / experts;
      const double bytes = weight ? static_cast<double>(weight_bytes(shard_, id))
                                  : static_cast<double>(type.elements() * sizeof(float));
      product.bytes = bytes / experts;
      product.tokens = setting_.expert_tokens;
      product.times = experts * setting_.expert_chance;
      work_.products.push_back(product);
    }
  }

  // A fixed operand that is not a weight, such as a constant, is in memory as f32.
  void count_weight(const Op& op, size_t operand, const Executed& executed) {
    const ValueId id = op.operands[operand], source = weight_behind(shard_, id);
    const auto* weight = source.valid() ? shard_.producer_as<Weight>(source) : nullptr;
    ProductWork product;
    if (weight) product.encoding = weight->encoding;
    product.dtype = weight ? shard_.type(source).dtype : DType::f32;
    const bool is_conv = std::holds_alternative<Conv>(op.data);
    product.inner = is_conv ? shard_.type(id).dims[1] : shard_.type(op.operands[0]).dims.back();
    product.weights = static_cast<double>(shard_.type(id).elements());
    product.bytes = weight ? static_cast<double>(weight_bytes(shard_, source))
                           : product.weights * static_cast<double>(sizeof(float));
    product.tokens = executed.macs / product.weights;
    product.times = executed.times;
    work_.products.push_back(product);
  }

  // The engine reuses the elements of a value of this run that has no other use.
  bool ends_in_reshape(const Op& op) const {
    if (!std::holds_alternative<Reshape>(op.data)) return false;
    const ValueId from = op.operands.front();
    const OpId producer = shard_.values[from].producer;
    return producer.valid() && !reads_state(shard_.ops[producer].data) && uses_[from] == 1;
  }

  // Selected share of a value's elements under the current gate.
  double share(ValueId id) const {
    if (gate_ == Gates::kNone) return 1;
    const CountedAxis axis = gates_.axis(id, gate_);
    if (axis.axis < 0) return 1;
    if (is_token_gate()) return std::min(1.0, setting_.expert_tokens / setting_.tokens);
    const auto size = static_cast<double>(shard_.type(id).dims.at(axis.axis));
    const auto first = static_cast<double>(axis.first);
    const auto keys = static_cast<double>(shard_.type(gates_.gates[gate_].weights).dims.back());
    // The new tokens are the last keys, or the first rows after the filled ones; their number is
    // the same.
    const double cached = std::min(setting_.cached_keys, keys - setting_.tokens);
    const double seen = overlap(first, first + size, 0, cached) +
                        overlap(first, first + size, keys - setting_.tokens, keys);
    return std::min(1.0, seen / size);
  }

  double selected(ValueId id) const {
    return static_cast<double>(shard_.type(id).elements()) * share(id);
  }

  void add(ElementWork kind, double elements) {
    at(work_.elements, static_cast<size_t>(kind)) += elements;
  }

  // The session writes every input and reads every output once. It lends caches without a copy, but
  // copies the states of a device before and after the run.
  void count_ports() {
    gate_ = Gates::kNone;
    for (const ValueId id : shard_.inputs)
      if (!is_cache_input(shard_.values[id].name)) add(ElementWork::move, selected(id));
    for (const Output& output : shard_.outputs) add(ElementWork::move, 2 * selected(output.value));
    for (const State& state : shard_.states)
      add(ElementWork::move, 2 * static_cast<double>(state.type.elements()));
  }

  const Program& program_;
  const Shard& shard_;
  const WorkSetting& setting_;
  const Gates& gates_;
  IdMap<ValueId, uint32_t> uses_;
  uint32_t gate_ = Gates::kNone;  // of the op that is being counted
  std::set<uint32_t> skipped_;    // gates whose closed parts need no further steps
  std::set<std::pair<uint32_t, ValueId>> gathered_;
  ShardWork work_;
};

}  // namespace

ShardWork count_work(const Shard& shard, const WorkSetting& setting) {
  const CpuProducts products(1, ActivationFormat::f32);
  const Program program = plan_program(shard, products);
  return Counter(program, setting).run();
}

}  // namespace moec
