#include <fmt/format.h>

#include <set>

#include "backends/emit/shard_facts.h"
#include "backends/formats/coreml/mil_names.h"
#include "backends/formats/coreml/mil_ops.h"
#include "backends/formats/coreml/mil_writer.h"
#include "backends/formats/coreml/write_mil_codes.h"
#include "ir/text/text.h"

namespace moec {
namespace {

// With more than two states, "predict" fails on devices with error 0x1d (reported by CoreML-LLM).
constexpr size_t kMaxStates = 2;

tl::unexpected<Diagnostics> refuse_dtype(const Shard& shard, std::string cause, std::string op) {
  return fail("emit.dtype", std::move(cause), "export with dtype f16 or f32",
              {.shard = shard.name, .op = std::move(op)});
}

Status check_states(const Shard& shard) {
  if (shard.states.size() > kMaxStates)
    return fail("coreml.states",
                fmt::format("the shard has {} states, devices support at most {}",
                            shard.states.size(), kMaxStates),
                "split the shard", {.shard = shard.name});
  for (const State& state : shard.states)
    if (state.type.dtype != DType::f16)
      return fail("coreml.states",
                  fmt::format("state \"{}\" has type {}, Core ML supports only f16 states",
                              state.name, to_string(state.type)),
                  "export with dtype f16", {.shard = shard.name});
  return {};
}

// Ports have the type ArrayFeatureType, which has no bool and requires at least one size.
Status check_port(const Shard& shard, const std::string& label, const Type& type) {
  if (type.dtype == DType::boolean)
    return refuse_dtype(shard, label + " is bool, which Core ML ports do not support", {});
  if (type.rank() == 0)
    return fail("emit.dtype", label + " is a scalar, which Core ML ports do not support",
                "reshape it to [1]", {.shard = shard.name});
  return {};
}

// Ports keep their names, because runtimes bind them by name. All other values are renamed if MIL
// does not accept their name. Inputs, states and outputs share one name space.
Status check_port_names(const Shard& shard) {
  std::set<std::string> taken;
  auto check = [&](const std::string& name) -> Status {
    if (!is_mil_name(name))
      return fail(
          "coreml.reserved_name",
          fmt::format("\"{}\" is reserved in MIL or has characters outside [A-Za-z0-9_]", name),
          "rename the port or state", {.shard = shard.name});
    if (!taken.insert(name).second)
      return fail(
          "emit.port_name",
          fmt::format("two ports or states have the name \"{}\", which Core ML forbids", name),
          "rename one of the two", {.shard = shard.name});
    return {};
  };
  for (ValueId input : shard.inputs) MOEC_TRY(check(shard.values[input].name));
  for (const State& state : shard.states) MOEC_TRY(check(state.name));
  for (const Output& output : shard.outputs) MOEC_TRY(check(output.name));
  return {};
}

Status check_ports(const Shard& shard) {
  for (ValueId input : shard.inputs)
    MOEC_TRY(check_port(shard, fmt::format("input \"{}\"", shard.values[input].name),
                        shard.type(input)));
  for (const Output& output : shard.outputs)
    MOEC_TRY(
        check_port(shard, fmt::format("output \"{}\"", output.name), shard.type(output.value)));
  return check_port_names(shard);
}

// fill_immediate() casts the values to i32; a cast of a double out of range is undefined behavior.
Status check_constant(const Shard& shard, const Constant& constant, const std::string& label) {
  for (double value : constant.values)
    if ((constant.type.dtype == DType::i32 && (value < -0x1p31 || value >= 0x1p31)) ||
        (constant.type.dtype == DType::boolean && value != 0 && value != 1))
      return fail("emit.constant",
                  fmt::format("{} is out of range for element type {}", value,
                              dtype_name(constant.type.dtype)),
                  "use another element type for the constant", {.shard = shard.name, .op = label});
  return {};
}

// Checks the op before its details, so that the message names the most general reason.
Status check_op(const Shard& shard, OpId id) {
  const Op& op = shard.ops[id];
  const std::string label = op_label(shard, id);
  if (mil_op_type(op.data).empty())
    return fail("emit.op", fmt::format("MIL has no equivalent of {}", mnemonic(op.data)),
                "choose another routing form", {.shard = shard.name, .op = label});
  // A state write has no result. Its operand is checked where the operand is defined.
  for (ValueId result : op.results) {
    const Type& type = shard.type(result);
    if (!mil_dtype(type.dtype))
      return refuse_dtype(
          shard,
          fmt::format("{} of type {} has no MIL form", mnemonic(op.data), dtype_name(type.dtype)),
          label);
    // The blob file can store weights only as f16, f32 or codes (weight_blobs.cc).
    if (std::holds_alternative<Weight>(op.data) && !is_float(type.dtype))
      return refuse_dtype(
          shard, fmt::format("a weight has type {}, expected a float type", dtype_name(type.dtype)),
          label);
    if (const auto* weight = std::get_if<Weight>(&op.data);
        weight && mil_weight_op(weight->encoding, type).empty())
      return fail(
          "emit.encoding",
          fmt::format("{} of {} has no Core ML form", to_string(weight->encoding), to_string(type)),
          "choose block sizes that divide each axis", {.shard = shard.name, .op = label});
    if (std::holds_alternative<Reshape>(op.data) && type.rank() == 0)
      return fail("emit.op", "MIL cannot reshape to a scalar", "reshape to [1]",
                  {.shard = shard.name, .op = label});
  }
  const auto* constant = std::get_if<Constant>(&op.data);
  return constant ? check_constant(shard, *constant, label) : Status{};
}

}  // namespace

Status check_mil(const Shard& shard) {
  MOEC_TRY(check_placed(shard));
  MOEC_TRY(check_states(shard));
  for (ValueId input : shard.inputs)
    if (!mil_dtype(shard.type(input).dtype))
      return refuse_dtype(
          shard,
          fmt::format("an input of type {} has no MIL form", dtype_name(shard.type(input).dtype)),
          shard.label(input));
  for (OpId op : op_ids(shard)) MOEC_TRY(check_op(shard, op));
  return check_ports(shard);
}

}  // namespace moec
