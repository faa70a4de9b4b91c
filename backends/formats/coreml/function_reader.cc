#include "backends/formats/coreml/function_reader.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <unordered_set>

#include "backends/emit/metadata_keys.h"
#include "backends/formats/coreml/blob_file.h"
#include "backends/formats/coreml/mil_names.h"
#include "backends/formats/coreml/mil_values.h"
#include "backends/formats/coreml/ports.h"
#include "backends/formats/coreml/read_mil_codes.h"
#include "backends/formats/coreml/read_mil_ops.h"
#include "ir/graph/infer.h"
#include "ir/verify/verify.h"

namespace moec {
namespace {

using mlmodel::NamedValueType;
using mlmodel::Operation;

// The IR name for a label; empty for a number, which labels an unnamed value. Names of other tools
// may contain any character; the IR accepts only letters, digits, `_` and `.`.
std::string ir_name(std::string label) {
  auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  auto is_letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); };
  if (std::all_of(label.begin(), label.end(), is_digit)) return {};
  for (char& c : label)
    if (!is_digit(c) && !is_letter(c) && c != '.') c = '_';
  return label;
}

class FunctionReader {
 public:
  FunctionReader(const mlmodel::Function& function, const mlmodel::Block& block,
                 const FunctionContext& context, const FunctionNames& names)
      : function_(function),
        block_(block),
        context_(context),
        metadata_(context.metadata),
        names_(names),
        blobs_(context.folder) {}

  Result<LoadedShard> read() {
    Shard& shard = out_.shard;
    shard.name = ir_name(metadata_.shard.empty() ? context_.name : metadata_.shard);
    if (shard.name.empty()) shard.name = "function";
    shard.form = Form::placed;
    MOEC_TRY(read_inputs());
    for (const Operation& operation : block_.operations())
      if (Status read = read_operation(operation); !read)
        return fail(placed(std::move(read.error()), operation));
    MOEC_TRY(read_outputs());
    MOEC_TRY(check_metadata());
    if (Diagnostics findings = verify(shard); has_error(findings)) return fail(std::move(findings));
    out_.owners = metadata_.owners;
    out_.nodes = mil_op_names(out_.shard);
    return std::move(out_);
  }

 private:
  Status read_inputs();
  Status read_state(const NamedValueType& input);
  Status read_outputs();
  Status check_metadata() const;

  Status read_operation(const Operation& operation);
  Status read_const(const Operation& operation);
  Status read_identity(const Operation& operation);
  Status read_read_state(const Operation& operation);
  Status read_write_state(const Operation& operation);
  Status read_plain_conv(const Operation& operation, OpData conv, std::vector<ValueId> operands);

  Result<ValueId> value_of(const std::string& name) const;
  Result<std::string> state_of(const Operation& operation) const;
  Result<std::vector<ValueId>> append(OpData data, std::vector<ValueId> operands);
  Status append_named(OpData data, std::vector<ValueId> operands, const Operation& operation);
  Status bind(const NamedValueType& output, ValueId value);
  Status check_stated(const NamedValueType& output, ValueId value) const;
  void name_value(ValueId value, const std::string& mil_name);
  Layout layout_of(const std::string& name);
  bool is_range() const { return metadata_.range.has_value(); }
  static Diagnostics placed(Diagnostics findings, const Operation& operation);

  const mlmodel::Function& function_;
  const mlmodel::Block& block_;
  const FunctionContext& context_;
  const CoremlMetadata& metadata_;
  const FunctionNames& names_;
  BlobFile blobs_;
  LoadedShard out_;
  std::map<std::string, ValueId, std::less<>> values_;
  std::map<std::string, ValueId, std::less<>> written_;  // by state
  std::set<std::string, std::less<>> laid_out_;          // names that may have a layout entry
  std::unordered_set<std::string> taken_;                // IR names
};

// ---- Names and types ---------------------------------------------------------------------------

Diagnostics FunctionReader::placed(Diagnostics findings, const Operation& operation) {
  for (Diagnostic& finding : findings)
    if (finding.place.op.empty()) finding.place.op = operation_label(operation);
  return findings;
}

// Records the name, so that check_metadata() can reject layout entries for other names.
Layout FunctionReader::layout_of(const std::string& name) {
  laid_out_.insert(name);
  const auto found = metadata_.layouts.find(name);
  return found == metadata_.layouts.end() ? Layout::plain : found->second;
}

// Distinct MIL names may give equal IR names, so a name in use gets a suffix.
void FunctionReader::name_value(ValueId value, const std::string& mil_name) {
  const auto label = metadata_.labels.find(mil_name);
  const std::string wanted = ir_name(label == metadata_.labels.end() ? mil_name : label->second);
  std::string name = wanted;
  if (wanted.empty()) return;
  for (int suffix = 2; !taken_.insert(name).second; ++suffix)
    name = fmt::format("{}_{}", wanted, suffix);
  out_.shard.values[value].name = std::move(name);
}

Status FunctionReader::bind(const NamedValueType& output, ValueId value) {
  values_.emplace(output.name(), value);
  return check_stated(output, value);
}

// Compares the type in the program with the inferred one. Only range packages may have unknown
// sizes.
Status FunctionReader::check_stated(const NamedValueType& output, ValueId value) const {
  MOEC_ASSIGN(StatedType stated, stated_type(output.type().tensortype(), output.name()));
  if (!is_range()) MOEC_TRY(fixed_type(output.type().tensortype(), output.name()));
  // MIL has no layouts, so the comparison ignores them.
  Type inferred = out_.shard.type(value);
  inferred.layout = Layout::plain;
  if (agrees(stated, inferred)) return {};
  return fail("coreml.type_mismatch",
              fmt::format("the program states type {}, but its operations produce {}",
                          to_string(stated), to_string(inferred)),
              "export the model again", {.op = output.name()});
}

Result<ValueId> FunctionReader::value_of(const std::string& name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  return fail("coreml.argument", fmt::format("\"{}\" is not a tensor", name),
              "export the model again");
}

// ---- Ports -------------------------------------------------------------------------------------

// States are inputs of the function in MIL. The description lists them separately.
Status FunctionReader::read_inputs() {
  for (const NamedValueType& input : function_.inputs()) {
    if (input.type().has_statetype()) {
      MOEC_TRY(read_state(input));
      continue;
    }
    MOEC_ASSIGN(Type type, described_type(context_.ports.inputs, input, is_range()));
    type.layout = layout_of(input.name());
    const ValueId value = out_.shard.values.push({std::move(type), {}, OpId{}});
    name_value(value, input.name());
    out_.shard.inputs.push_back(value);
    values_.emplace(input.name(), value);
  }
  if (context_.ports.inputs.size() == out_.shard.inputs.size() &&
      context_.ports.states.size() == out_.shard.states.size())
    return {};
  return fail(
      "coreml.description",
      fmt::format("the description has {} inputs and {} states, but the program has {} and {}",
                  context_.ports.inputs.size(), context_.ports.states.size(),
                  out_.shard.inputs.size(), out_.shard.states.size()),
      "export the model again");
}

Status FunctionReader::read_state(const NamedValueType& input) {
  MOEC_ASSIGN(Type type, described_type(context_.ports.states, input, false));
  type.layout = layout_of(input.name());
  out_.shard.states.push_back({input.name(), std::move(type)});
  return {};
}

// An output whose size depends on the token width has no sizes in the description, so only its
// element type is compared.
Status FunctionReader::read_outputs() {
  for (const std::string& name : block_.outputs()) {
    MOEC_ASSIGN(const ValueId value, value_of(name));
    const auto port = context_.ports.outputs.find(name);
    const Type& type = out_.shard.type(value);
    if (port == context_.ports.outputs.end() || port->second.dtype != type.dtype ||
        (port->second.dims && *port->second.dims != type.dims))
      return fail("coreml.description",
                  fmt::format("the description has no such output of type {}", to_string(type)),
                  "export the model again", {.op = name});
    out_.shard.outputs.push_back({name, value});
  }
  if (context_.ports.outputs.size() == out_.shard.outputs.size()) return {};
  return fail("coreml.description",
              fmt::format("the description has {} outputs, but the program has {}",
                          context_.ports.outputs.size(), out_.shard.outputs.size()),
              "export the model again");
}

// ---- Operations --------------------------------------------------------------------------------

// Appends an op with inferred result types. Violations are reported here, because verify() would
// report them without the operation.
Result<std::vector<ValueId>> FunctionReader::append(OpData data, std::vector<ValueId> operands) {
  std::vector<Type> types;
  for (ValueId operand : operands) types.push_back(out_.shard.type(operand));
  const Inferred inferred = infer(data, types, [&](std::string_view name) -> const Type* {
    const State* state = out_.shard.find_state(name);
    return state ? &state->type : nullptr;
  });
  if (!inferred.violations.empty())
    return fail(inferred.violations.front().code, inferred.violations.front().message,
                "export the model again");
  const OpId op = out_.shard.ops.push({std::move(data), std::move(operands), {}});
  std::vector<ValueId> results;
  for (const Type& type : inferred.results)
    results.push_back(out_.shard.values.push({type, {}, op}));
  out_.shard.ops[op].results = results;
  return results;
}

Status FunctionReader::append_named(OpData data, std::vector<ValueId> operands,
                                    const Operation& operation) {
  MOEC_ASSIGN(const std::vector<ValueId> results, append(std::move(data), std::move(operands)));
  const NamedValueType& output = operation.outputs(0);
  name_value(results.front(), output.name());
  return bind(output, results.front());
}

// read_names() has checked consts, and a state write has no output. All other operations must have
// exactly one output.
Status FunctionReader::read_operation(const Operation& operation) {
  const std::string& type = operation.type();
  if (type == kConst) return read_const(operation);
  if (type == kWriteState) return read_write_state(operation);
  if (operation.outputs_size() != 1)
    return fail("coreml.op",
                fmt::format("{} has {} outputs, expected 1", type, operation.outputs_size()),
                "export the model again");
  if (type == kIdentity) return read_identity(operation);
  if (type == kReadState) return read_read_state(operation);
  if (is_coded_weight(operation)) {
    MOEC_ASSIGN(WeightView view, read_coded_weight(operation, {false, blobs_, out_.weights}));
    return append_named(Weight{std::move(view)}, {}, operation);
  }
  MOEC_ASSIGN(const std::vector<std::string> names,
              operand_names(operation, is_negation(operation, metadata_)));
  std::vector<ValueId> operands;
  std::vector<Type> types;
  for (const std::string& name : names) {
    MOEC_ASSIGN(const ValueId value, value_of(name));
    operands.push_back(value);
    types.push_back(out_.shard.type(value));
  }
  OperationContext context{names_.consts, types, Layout::plain};
  // Only reshape and transpose state the layout of their result; infer() derives other layouts.
  if (type == "reshape" || type == "transpose")
    context.layout = layout_of(operation.outputs(0).name());
  MOEC_ASSIGN(OpData data, read_op(operation, context));
  if (std::holds_alternative<Conv>(data) && types[0].layout == Layout::plain)
    return read_plain_conv(operation, std::move(data), std::move(operands));
  return append_named(std::move(data), std::move(operands), operation);
}

// Without metadata every value is plain, but convolutions of the IR require token layouts. The
// convolution is placed between two reshapes that change only the layout.
Status FunctionReader::read_plain_conv(const Operation& operation, OpData conv,
                                       std::vector<ValueId> operands) {
  const Dims dims = out_.shard.type(operands[0]).dims;
  const Dims& kernel = out_.shard.type(operands[1]).dims;
  // If axes 2 and 3 both have size 1, only the kernel shows which of them is the token axis.
  const bool token_last =
      dims.size() == 4 && kernel.size() == 4 && (dims[3] != 1 || (dims[2] == 1 && kernel[3] != 1));
  const Layout layout = token_last ? Layout::bc1s : Layout::channels;
  MOEC_ASSIGN(const std::vector<ValueId> x, append(Reshape{dims, layout}, {operands[0]}));
  operands[0] = x.front();
  MOEC_ASSIGN(const std::vector<ValueId> y, append(std::move(conv), std::move(operands)));
  Reshape back{out_.shard.type(y.front()).dims, Layout::plain};
  return append_named(std::move(back), y, operation);
}

// An identity creates no op. Its output is a second name of the value.
Status FunctionReader::read_identity(const Operation& operation) {
  Arguments arguments(operation, names_.consts);
  MOEC_ASSIGN(const std::string x, arguments.operand("x"));
  MOEC_TRY(arguments.finish());
  MOEC_ASSIGN(const ValueId value, value_of(x));
  return bind(operation.outputs(0), value);
}

// ---- Consts ------------------------------------------------------------------------------------

Status FunctionReader::read_const(const Operation& operation) {
  const std::string& name = operation.outputs(0).name();
  // Consts such as axes and flags are read by the ops that use them. They are not values of the
  // shard.
  if (names_.arguments.contains(name)) return {};
  const SourceContext context{metadata_.constants.contains(name), blobs_, out_.weights};
  MOEC_ASSIGN(OpData data, read_source(*names_.consts.at(name), name, context));
  if (auto* constant = std::get_if<Constant>(&data)) constant->type.layout = layout_of(name);
  return append_named(std::move(data), {}, operation);
}

// ---- States ------------------------------------------------------------------------------------

Result<std::string> FunctionReader::state_of(const Operation& operation) const {
  Arguments arguments(operation, names_.consts);
  MOEC_ASSIGN(std::string state, arguments.operand("input"));
  if (operation.type() == kWriteState) arguments.expect("data");
  MOEC_TRY(arguments.finish());
  if (out_.shard.find_state(state)) return state;
  return fail("coreml.argument", fmt::format("\"{}\" is not a state", state),
              "export the model again");
}

// A state read returns the initial value in the IR, but the last written value in MIL. So a read
// after a write becomes the written value.
Status FunctionReader::read_read_state(const Operation& operation) {
  MOEC_ASSIGN(const std::string state, state_of(operation));
  const auto written = written_.find(state);
  if (written != written_.end()) return bind(operation.outputs(0), written->second);
  return append_named(StateRead{state}, {}, operation);
}

Status FunctionReader::read_write_state(const Operation& operation) {
  MOEC_ASSIGN(const std::string state, state_of(operation));
  MOEC_ASSIGN(const std::string data, Arguments(operation, names_.consts).operand("data"));
  MOEC_ASSIGN(const ValueId value, value_of(data));
  if (!operation.outputs().empty())
    return fail("coreml.op", "write_state must not have outputs", "export the model again");
  written_[state] = value;
  // A StateWrite has no result, so nothing is bound.
  MOEC_TRY(append(StateWrite{state}, {value}));
  return {};
}

// ---- Metadata ----------------------------------------------------------------------------------

// Every name in the metadata must be a value of the kind that its entry requires. Owners are not
// checked here: `moec check` compares them with the graph and reports all differences.
Status FunctionReader::check_metadata() const {
  auto absent = [](std::string_view what, const std::string& name) {
    return fail(
        "coreml.metadata",
        fmt::format("the entry \"{}\" names \"{}\", which is not a value of the required kind",
                    what, name),
        "export the model again");
  };
  for (const auto& [name, layout] : metadata_.layouts)
    if (!laid_out_.contains(name)) return absent(kLayoutsEntry, name);
  for (const auto& [name, label] : metadata_.labels)
    if (!names_.all.contains(name)) return absent(kNamesEntry, name);
  for (const std::string& name : metadata_.constants)
    if (!names_.consts.contains(name)) return absent(kConstantsEntry, name);
  for (const std::string& name : metadata_.negations)
    if (!names_.all.contains(name)) return absent(kNegationsEntry, name);
  return {};
}

}  // namespace

Result<LoadedShard> read_function(const mlmodel::Function& function, const mlmodel::Block& block,
                                  const FunctionContext& context) {
  MOEC_ASSIGN(const FunctionNames names, read_names(function, block, context.metadata));
  return FunctionReader(function, block, context, names).read();
}

}  // namespace moec
