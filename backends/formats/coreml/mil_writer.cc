#include "backends/formats/coreml/mil_writer.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <utility>

#include "backends/emit/metadata_keys.h"
#include "backends/emit/shard_facts.h"
#include "backends/formats/coreml/mil_names.h"
#include "backends/formats/coreml/mil_ops.h"
#include "backends/formats/coreml/spec_version.h"
#include "backends/formats/coreml/token_range.h"
#include "backends/formats/coreml/weight_blobs.h"
#include "backends/formats/coreml/write_mil_codes.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// coremltools stores smaller constants in the program, and readers expect them there.
constexpr int64_t kBlobElements = 10;

bool lies_in_blob(const Constant& constant) {
  return is_float(constant.type.dtype) && constant.type.elements() >= kBlobElements;
}

class FunctionWriter {
 public:
  FunctionWriter(const MilFunction& function, const DataLayout& layout, mlmodel::Block& block)
      : shard_(*function.shard),
        widest_(function.widest ? *function.widest : shard_),
        layout_(layout),
        names_(shard_),
        block_(block) {}

  // The block lists operations in order of definition. Copies come last, because they use values of
  // the ops.
  void write(mlmodel::Function& function) {
    write_inputs(function);
    for (OpId op : op_ids(shard_)) write_op(op);
    for (const Output& copy : names_.copies()) write_copy(copy);
    for (const Output& output : shard_.outputs) block_.add_outputs(output.name);
  }

  std::map<std::string, std::string> metadata() const;
  std::string owners(const MoeLayers& moe) const {
    return to_text(owners_of(shard_, moe, [&](ValueId value) { return names_.value(value); }));
  }

 private:
  void write_inputs(mlmodel::Function& function);
  void write_op(OpId id);
  void write_copy(const Output& output);

  // One overload per op binds the operands to parameters by name and adds the other arguments.
  void fill(const Weight& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Constant& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Unary& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Binary&, const Op& op, mlmodel::Operation& mil) { bind(op, {"x", "y"}, mil); }
  void fill(const Compare&, const Op& op, mlmodel::Operation& mil) { bind(op, {"x", "y"}, mil); }
  void fill(const Select&, const Op& op, mlmodel::Operation& mil) {
    bind(op, {"cond", "a", "b"}, mil);
  }
  void fill(const MatMul& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Conv& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Cast& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Reduce& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Softmax& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Slice& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Concat& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Reshape& data, const Op& op, mlmodel::Operation& mil);
  void fill(const Transpose& data, const Op& op, mlmodel::Operation& mil);
  void fill(const StateRead& data, const Op& op, mlmodel::Operation& mil);
  void fill(const StateWrite& data, const Op& op, mlmodel::Operation& mil);
  template <WithoutMilOp OpT>
  void fill(const OpT& data, const Op&, mlmodel::Operation&) {
    MOEC_CHECK(false, "shard {} contains a {}, which has no MIL form", shard_.name, mnemonic(data));
  }

  static void bind_name(const std::string& parameter, const std::string& name,
                        mlmodel::Operation& mil) {
    (*mil.mutable_inputs())[parameter].add_arguments()->set_name(name);
  }
  // Binds the operands in order. `parameters` may be longer than the operands, because the bias of
  // a convolution is optional.
  void bind(const Op& op, std::initializer_list<const char*> parameters, mlmodel::Operation& mil) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      bind_name(parameters.begin()[i], names_.value(op.operands[i]), mil);
  }

  // Binds the parameter to a const with this value. The const's name is `name`, or `parameter` if
  // `name` is empty.
  void set(const std::string& parameter, const mlmodel::Value& value, mlmodel::Operation& mil,
           std::string name = {});
  void set_ints(const std::string& parameter, const Dims& values, mlmodel::Operation& mil);
  void set_number(const std::string& parameter, const Type& type, double number,
                  mlmodel::Operation& mil, std::string name = {});
  void set_text(const std::string& parameter, std::string_view text, mlmodel::Operation& mil);
  // A double holds every i32 exactly.
  void set_int(const std::string& parameter, int64_t value, mlmodel::Operation& mil) {
    set_number(parameter, {DType::i32, {}}, static_cast<double>(value), mil);
  }
  void set_flag(const std::string& parameter, bool value, mlmodel::Operation& mil) {
    set_number(parameter, {DType::boolean, {}}, value, mil);
  }

  static void set_name(const std::string& name, mlmodel::Operation& mil) {
    fill_string(name, (*mil.mutable_attributes())["name"]);
  }
  void add_output(const std::string& name, ValueId value, mlmodel::Operation& mil);
  void fill_blob(const Type& type, const DataLayout::Entry& entry, mlmodel::Operation& mil);
  Dims dims(ValueId value) const {
    return range_dims(shard_.type(value).dims, widest_.type(value).dims);
  }

  const Shard& shard_;
  const Shard& widest_;
  const DataLayout& layout_;
  MilNames names_;
  mlmodel::Block& block_;
  std::map<std::pair<std::string, std::string>, std::string> consts_;  // (name, value)
};

// States are inputs of the function, with the type of the tensor that they wrap.
void FunctionWriter::write_inputs(mlmodel::Function& function) {
  for (ValueId input : shard_.inputs) {
    mlmodel::NamedValueType& port = *function.add_inputs();
    port.set_name(names_.value(input));
    fill_tensor_type(shard_.type(input).dtype, dims(input),
                     *port.mutable_type()->mutable_tensortype());
  }
  for (const State& state : shard_.states) {
    mlmodel::NamedValueType& port = *function.add_inputs();
    port.set_name(state.name);
    fill_tensor_type(
        state.type.dtype, state.type.dims,
        *port.mutable_type()->mutable_statetype()->mutable_wrappedtype()->mutable_tensortype());
  }
}

// fill() adds the op's consts to the block; they must precede the op, so the op is added last.
void FunctionWriter::write_op(OpId id) {
  const Op& op = shard_.ops[id];
  mlmodel::Operation mil;
  mil.set_type(std::string(mil_op_type(op.data)));
  for (ValueId result : op.results) {
    set_name(names_.value(result), mil);
    add_output(names_.value(result), result, mil);
  }
  std::visit([&](const auto& data) { fill(data, op, mil); }, op.data);
  *block_.add_operations() = std::move(mil);
}

// A value has only one name, so a second name needs an identity op.
void FunctionWriter::write_copy(const Output& output) {
  mlmodel::Operation& mil = *block_.add_operations();
  mil.set_type("identity");
  set_name(output.name, mil);
  bind_name("x", names_.value(output.value), mil);
  add_output(output.name, output.value, mil);
}

void FunctionWriter::add_output(const std::string& name, ValueId value, mlmodel::Operation& mil) {
  mlmodel::NamedValueType& output = *mil.add_outputs();
  output.set_name(name);
  fill_tensor_type(shard_.type(value).dtype, dims(value),
                   *output.mutable_type()->mutable_tensortype());
}

// ---- Consts ------------------------------------------------------------------------------------

// Ops with equal arguments share a const: a shard has thousands of arguments but few distinct
// values.
void FunctionWriter::set(const std::string& parameter, const mlmodel::Value& value,
                         mlmodel::Operation& mil, std::string name) {
  if (name.empty()) name = parameter;
  // The name is part of the key, so that a const keeps a name that describes its use.
  std::string& shared = consts_[{name, value.SerializeAsString()}];
  if (shared.empty()) {
    shared = names_.fresh(name);
    mlmodel::Operation& constant = *block_.add_operations();
    constant.set_type("const");
    set_name(shared, constant);
    (*constant.mutable_attributes())["val"] = value;
    mlmodel::NamedValueType& output = *constant.add_outputs();
    output.set_name(shared);
    *output.mutable_type() = value.type();
  }
  bind_name(parameter, shared, mil);
}

void FunctionWriter::set_ints(const std::string& parameter, const Dims& values,
                              mlmodel::Operation& mil) {
  mlmodel::Value value;
  fill_immediate({DType::i32, {std::ssize(values)}},
                 std::vector<double>(values.begin(), values.end()), value);
  set(parameter, value, mil);
}

void FunctionWriter::set_number(const std::string& parameter, const Type& type, double number,
                                mlmodel::Operation& mil, std::string name) {
  mlmodel::Value value;
  fill_immediate(type, {number}, value);
  set(parameter, value, mil, std::move(name));
}

void FunctionWriter::set_text(const std::string& parameter, std::string_view text,
                              mlmodel::Operation& mil) {
  mlmodel::Value value;
  fill_string(std::string(text), value);
  set(parameter, value, mil);
}

void FunctionWriter::fill_blob(const Type& type, const DataLayout::Entry& entry,
                               mlmodel::Operation& mil) {
  fill_blob_value(*mil_dtype(type.dtype), type.dims, entry, (*mil.mutable_attributes())["val"]);
}

void FunctionWriter::fill(const Weight& data, const Op& op, mlmodel::Operation& mil) {
  const Type& type = shard_.type(op.results.front());
  if (is_plain(data.encoding)) return fill_blob(type, layout_.find(data), mil);
  fill_encoded_weight(data, type, layout_, mil);
}

void FunctionWriter::fill(const Constant& data, const Op&, mlmodel::Operation& mil) {
  if (!lies_in_blob(data))
    return fill_immediate(data.type, data.values, (*mil.mutable_attributes())["val"]);
  fill_blob(data.type, layout_.find_literal(float_bytes(data.type, data.values), data.type.dtype),
            mil);
}

// ---- Ops ---------------------------------------------------------------------------------------

void FunctionWriter::fill(const Unary& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  const Type scalar{shard_.type(op.operands.front()).dtype, {}};
  if (data.fn == UnaryFn::neg) set_number("y", scalar, -1, mil, "minus_one");
  // MIL adds an epsilon to the operand; its default is not 0.
  if (data.fn == UnaryFn::log || data.fn == UnaryFn::reciprocal)
    set_number("epsilon", scalar, 0, mil);
}

// The IR expresses transposed operands with transpose ops.
void FunctionWriter::fill(const MatMul&, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x", "y"}, mil);
  set_flag("transpose_x", false, mil);
  set_flag("transpose_y", false, mil);
}

// The IR has only convolutions with stride 1 and without padding or dilation.
void FunctionWriter::fill(const Conv& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x", "weight", "bias"}, mil);
  set_ints("strides", {1, 1}, mil);
  set_text("pad_type", "valid", mil);
  set_ints("pad", {0, 0, 0, 0}, mil);
  set_ints("dilations", {1, 1}, mil);
  set_int("groups", data.groups, mil);
}

void FunctionWriter::fill(const Cast& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  set_text("dtype", mil_dtype_name(data.dtype), mil);
}

// An IR reduction keeps its axis with size 1.
void FunctionWriter::fill(const Reduce& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  set_ints("axes", {data.axis}, mil);
  set_flag("keep_dims", true, mil);
}

void FunctionWriter::fill(const Softmax& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  set_int("axis", data.axis, mil);
}

// MIL requires begin and size for all axes; axes that are not cut have begin 0 and their full size.
void FunctionWriter::fill(const Slice& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  Dims begin(shard_.type(op.operands.front()).rank(), 0);
  at(begin, data.axis) = data.begin;
  set_ints("begin", begin, mil);
  set_ints("size", dims(op.results.front()), mil);  // −1: to the end
}

// One parameter, "values", is bound to all operands.
void FunctionWriter::fill(const Concat& data, const Op& op, mlmodel::Operation& mil) {
  for (ValueId part : op.operands) bind_name("values", names_.value(part), mil);
  set_int("axis", data.axis, mil);
  set_flag("interleave", false, mil);
}

void FunctionWriter::fill(const Reshape&, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  set_ints("shape", dims(op.results.front()), mil);  // −1: inferred
}

void FunctionWriter::fill(const Transpose& data, const Op& op, mlmodel::Operation& mil) {
  bind(op, {"x"}, mil);
  set_ints("perm", data.perm, mil);
}

void FunctionWriter::fill(const StateRead& data, const Op&, mlmodel::Operation& mil) {
  bind_name("input", data.state, mil);
}

// A state write has no result in the IR, but every MIL op needs a name.
void FunctionWriter::fill(const StateWrite& data, const Op& op, mlmodel::Operation& mil) {
  set_name(names_.fresh(data.state + "_write"), mil);
  bind_name("input", data.state, mil);
  bind_name("data", names_.value(op.operands.front()), mil);
}

// ---- Metadata ----------------------------------------------------------------------------------

void add_line(std::string& lines, std::string_view first, std::string_view second) {
  lines += fmt::format("{} {}\n", first, second);
}

// Properties that MIL cannot express and that the reader needs to restore the shard exactly:
// layouts, names that MIL does not allow, and the consts and products that represent other ops.
std::map<std::string, std::string> FunctionWriter::metadata() const {
  std::map<std::string, std::string> entries{{kShardEntry, shard_.name}};
  for (const State& state : shard_.states)
    if (state.type.layout != Layout::plain)
      add_line(entries[kLayoutsEntry], layout_name(state.type.layout), state.name);
  for (uint32_t i = 0; i < shard_.values.size(); ++i) {
    const ValueId value{i};
    // Layouts that follow from the operands need no entry, and neither do labels that equal the MIL
    // name.
    const std::string& name = names_.value(value);
    const Layout layout = shard_.type(value).layout;
    if (layout != Layout::plain && states_layout(shard_, value))
      add_line(entries[kLayoutsEntry], layout_name(layout), name);
    if (const std::string label = shard_.label(value); label != name)
      add_line(entries[kNamesEntry], label, name);
    const auto* constant = shard_.producer_as<Constant>(value);
    if (constant && lies_in_blob(*constant)) entries[kConstantsEntry] += name + "\n";
    const auto* unary = shard_.producer_as<Unary>(value);
    if (unary && unary->fn == UnaryFn::neg) entries[kNegationsEntry] += name + "\n";
  }
  return entries;
}

}  // namespace

// MilNames depends only on the shard, so these names equal those in write_function().
void collect_blobs(const Shard& shard, const ExpertLayout& experts, DataLayout& layout) {
  const MilNames names(shard);
  ExpertOrder order(shard, experts);
  for (const OpId id : order.ops()) {
    const Op& op = shard.ops[id];
    if (op.results.empty()) continue;
    const std::string& name = names.value(op.results.front());
    if (const auto* weight = std::get_if<Weight>(&op.data)) {
      order.begin(id, layout);
      layout.add(*weight, shard.type(op.results.front()), name);
    }
    const auto* constant = std::get_if<Constant>(&op.data);
    if (constant && lies_in_blob(*constant))
      layout.add_literal(float_bytes(constant->type, constant->values), constant->type.dtype, name);
  }
}

void write_function(const MilFunction& function, const DataLayout& layout, int spec_version,
                    mlmodel::Function& written, std::map<std::string, std::string>& metadata) {
  const std::string opset = opset_name(spec_version);
  written.set_opset(opset);
  FunctionWriter writer(function, layout, (*written.mutable_block_specializations())[opset]);
  writer.write(written);
  metadata = writer.metadata();
  if (function.moe_layers)
    if (std::string owners = writer.owners(*function.moe_layers); !owners.empty())
      metadata[kWeightsEntry] = std::move(owners);
}

}  // namespace moec
