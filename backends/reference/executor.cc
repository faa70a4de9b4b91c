#include <fmt/format.h>

#include "backends/reference/program.h"
#include "backends/reference/rounding.h"

namespace moec {
namespace {

// Layouts are not compared, because callers may pass plain tensors. The number of elements is
// compared, because a Tensor does not enforce it.
bool holds(const Tensor& tensor, const Type& type) {
  return tensor.type.dtype == type.dtype && tensor.type.dims == type.dims &&
         tensor.elements() == static_cast<size_t>(type.elements());
}

std::string described(const Tensor& tensor) {
  return fmt::format("{} with {} elements", to_string(tensor.type), tensor.elements());
}

// run_program() does not check the number and the types of the inputs.
Status check_inputs(const Shard& shard, const std::vector<const Tensor*>& inputs) {
  if (inputs.size() != shard.inputs.size())
    return fail("reference.input_count",
                fmt::format("the shard has {} inputs, got {}", shard.inputs.size(), inputs.size()),
                "pass one tensor per input, in order", {.shard = shard.name});
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueId id = shard.inputs[i];
    if (!holds(*inputs[i], shard.type(id)))
      return fail(
          "reference.input_type",
          fmt::format("the input is {}, got {}", to_string(shard.type(id)), described(*inputs[i])),
          "pass a tensor with the input's element type and sizes",
          {.shard = shard.name, .op = shard.label(id)});
  }
  return {};
}

}  // namespace

struct Executor::Impl {
  Program program;
};

Executor::Executor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executor::Executor(Executor&&) noexcept = default;
Executor& Executor::operator=(Executor&&) noexcept = default;
Executor::~Executor() = default;

Result<Executor> Executor::create(const Shard& shard, const WeightReader& weights,
                                  const ExecutorOptions& options) {
  MOEC_ASSIGN(Program program, load_program(shard, weights, options));
  return Executor(std::make_unique<Impl>(Impl{std::move(program)}));
}

Result<Executor> Executor::create(const Shard& shard, const WeightTable& weights,
                                  const ExecutorOptions& options) {
  MOEC_ASSIGN(WeightReader reader, WeightReader::open(weights));
  return create(shard, reader, options);
}

Result<std::vector<Tensor>> Executor::run(const std::vector<Tensor>& inputs, const Probe& probe) {
  return run(inputs, RunProbes{.values = probe});
}

Result<std::vector<Tensor>> Executor::run(const std::vector<Tensor>& inputs,
                                          const RunProbes& probes) {
  // Pointers avoid a copy of inputs that a run need not convert or round.
  std::vector<const Tensor*> lent;
  for (const Tensor& input : inputs) lent.push_back(&input);
  return run(lent, probes);
}

Result<std::vector<Tensor>> Executor::run(const std::vector<const Tensor*>& inputs,
                                          const RunProbes& probes) {
  MOEC_TRY(check_inputs(shard(), inputs));
  MOEC_ASSIGN(std::vector<Tensor> outputs, run_program(impl_->program, inputs, probes));
  // Mapped weights are read during the run. A file that changed meanwhile makes the outputs
  // unreliable.
  for (const auto& file : impl_->program.files) MOEC_TRY(file->check_unchanged());
  return outputs;
}

void Executor::reset() { reset_states(impl_->program); }

const Tensor* Executor::state(std::string_view name) const {
  auto found = impl_->program.states.find(name);
  return found == impl_->program.states.end() ? nullptr : &found->second;
}

Status Executor::set_state(std::string_view name, Tensor value) {
  auto found = impl_->program.states.find(name);
  if (found == impl_->program.states.end())
    return fail("reference.unknown_state", fmt::format("no state is named \"{}\"", name),
                "use the name of a declared state", {.shard = shard().name});
  const Type& type = found->second.type;
  // A run reads states as f32.
  if (!holds(value, type) || !value.halves.empty())
    return fail("reference.state_type",
                fmt::format("state \"{}\" is {}, got {}", name, to_string(type), described(value)),
                "pass a tensor with the state's element type and sizes", {.shard = shard().name});
  // The caller's layout may differ. The elements are rounded as if a run had written them.
  value.type = type;
  round_elements(value, impl_->program.options.precision);
  found->second = std::move(value);
  return {};
}

const Shard& Executor::shard() const { return impl_->program.shard; }

const ExecutorMemory& Executor::memory() const { return impl_->program.memory; }

void Executor::release_weights_after_use() { impl_->program.releases_weights = true; }

Result<std::vector<Tensor>> evaluate(const Shard& shard, const std::vector<Tensor>& inputs,
                                     Precision precision) {
  MOEC_ASSIGN(Executor executor,
              Executor::create(shard, WeightTable{}, ExecutorOptions{.precision = precision}));
  return executor.run(inputs);
}

}  // namespace moec
