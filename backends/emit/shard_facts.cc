#include "backends/emit/shard_facts.h"

#include <fmt/format.h>

#include "ir/verify/verify.h"

namespace moec {
namespace {

// True if the op itself fixes the layouts of its results; false if they follow from its operands.
struct ChoosesLayout {
  bool operator()(const OneOf<Constant, Reshape, Transpose> auto&) const { return true; }
  bool operator()(const OneOf<Attention, GatedMlp, RmsNorm, Router, SoftMoe, Linear, Weight, Conv,
                              MatMul, Unary, Binary, Compare, Select, Cast, Reduce, Softmax, TopK,
                              Slice, Concat, StateRead, StateWrite> auto&) const {
    return false;
  }
};

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

bool is_source(const Shard& shard, ValueId value) {
  return shard.producer_as<Weight>(value) || shard.producer_as<Constant>(value);
}

bool states_layout(const Shard& shard, ValueId value) {
  const OpId producer = shard.values[value].producer;
  return !producer.valid() || std::visit(ChoosesLayout{}, shard.ops[producer].data);
}

std::string describe_file(const Shard& shard, const std::string& family) {
  return family.empty() ? "Static shard " + shard.name
                        : "Static shard " + shard.name + " of a " + family + " model";
}

}  // namespace moec
