#include "backends/emit/shard_facts.h"

#include <fmt/format.h>

#include "ir/verify/verify.h"

namespace moec {
namespace {

// True if an attribute of the op fixes the layout of its result; false if the layouts of its
// results follow from its operands.
bool chooses_layout(const auto& op) {
  constexpr bool is_own = requires { op.layout; };
  constexpr bool is_of_type = requires { op.type.layout; };
  return is_own || is_of_type;
}

}  // namespace

Status check_placed(const Shard& shard) {
  // Emitters rely on form placed and on the invariants that verify() checks.
  if (shard.form != Form::placed)
    return fail("emit.form",
                fmt::format("the shard is in form {}, expected form placed", form_name(shard.form)),
                "run the pass `place` last", {.shard = shard.name});
  if (Diagnostics findings = verify(shard); has_error(findings)) return fail(std::move(findings));
  return {};
}

bool states_layout(const Shard& shard, ValueId value) {
  const OpId producer = shard.values[value].producer;
  return !producer.valid() ||
         std::visit([](const auto& op) { return chooses_layout(op); }, shard.ops[producer].data);
}

std::string describe_file(const Shard& shard, const std::string& family) {
  return family.empty() ? "Static shard " + shard.name
                        : "Static shard " + shard.name + " of a " + family + " model";
}

}  // namespace moec
