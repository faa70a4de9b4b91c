// Memory of a program and its runs.
#include <fmt/format.h>

#include <algorithm>

#include "backends/reference/code_form.h"
#include "backends/reference/program.h"

namespace moec {
namespace {

uint64_t f32_bytes(const Shard& shard, ValueId id) {
  return static_cast<uint64_t>(shard.type(id).elements()) * sizeof(float);
}

// Peak bytes, during a run, of values that are neither fixed nor states. Includes copies of inputs,
// which rounding may require, and of outputs, which the caller receives.
uint64_t most_of_a_run(const Program& program) {
  const Shard& shard = program.shard;
  const auto size = [&](ValueId id) {
    const auto& paged = program.paged.values[id];
    return program.is_fixed[id] || (paged && !paged->as_tensor) ? 0 : f32_bytes(shard, id);
  };
  uint64_t live = 0;
  for (const ValueId input : shard.inputs) live += 2 * f32_bytes(shard, input);
  uint64_t most = live;
  for (const RunStep& step : program.runs.plain.steps) {
    for (const ValueId id : results_of(program, step)) live += size(id);
    uint64_t inside = 0;  // if the token chose all experts
    if (step.kind == StepKind::parts)
      for (const JointParts::Part& part : program.runs.parts[step.index].parts)
        for (const ValueId id : part.values) inside += size(id);
    most = std::max(most, live + inside);
    for (uint32_t i = step.first_dropped; i < step.end_dropped; ++i)
      live -= std::min(live, size(program.runs.plain.dropped[i]));
  }
  for (const Output& output : shard.outputs) live += f32_bytes(shard, output.value);
  return std::max(most, live);
}

// Bytes of an op with its name, operands and results; measured on graphs of unrolled experts.
constexpr uint64_t kOpBytes = 1024;

}  // namespace

Status check_memory(Program& program) {
  const Shard& shard = program.shard;
  ExecutorMemory& memory = program.memory;
  memory.run = most_of_a_run(program);
  for (const State& state : shard.states) {  // a run writes a second copy
    const auto bytes = static_cast<uint64_t>(state.type.elements()) * sizeof(float);
    memory.held += bytes;
    memory.run += bytes;
  }
  for (uint32_t i = 0; i < shard.values.size(); ++i) {
    const ValueId id{i};
    if (program.is_fixed[id] && !program.stored[id]) memory.held += f32_bytes(shard, id);
    if (memory.held + memory.run > program.options.memory_limit)
      return fail("reference.too_large",
                  fmt::format("running the shard would exceed the memory limit of {} bytes",
                              program.options.memory_limit),
                  "split the shard, or raise the memory limit",
                  {.shard = shard.name, .op = shard.label(id)});
  }
  // Added after the check, so these bytes are reported but not limited.
  memory.held += shard.ops.size() * kOpBytes;
  return {};
}

void note_widened(Program& program) {
  for (const Op& op : program.shard.ops) {
    const auto* weight = std::get_if<Weight>(&op.data);
    if (!weight) continue;
    const ValueId id = op.results.front();
    if (program.stored[id] || program.paged.values[id]) continue;
    if (program.shard.type(id).elements() < kStoredElements) continue;
    if (const std::string form = code_form(weight->view); !form.empty())
      program.memory.widened[form] += f32_bytes(program.shard, id);
  }
}

}  // namespace moec
