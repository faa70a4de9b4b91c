#include "backends/formats/tflite/subgraph_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numbers>
#include <set>

#include "backends/formats/tflite/path_names.h"
#include "backends/formats/tflite/read_codes.h"
#include "backends/formats/tflite/read_nodes.h"
#include "ir/graph/infer.h"
#include "ir/verify/verify.h"

namespace moec {
namespace {

using tflite::Operator;

tl::unexpected<Diagnostics> fail_op(std::string cause) {
  return fail("tflite.op", std::move(cause), "export the model again");
}

class SubgraphReader {
 public:
  SubgraphReader(const TfliteFile& file, const SignedSubgraph& of, const GraphMetadata& metadata)
      : file_(file),
        subgraph_(*of.subgraph),
        signature_(of.signature),
        metadata_(metadata),
        tensors_(file, subgraph_),
        values_(static_cast<size_t>(tensors_.count())) {}

  Result<LoadedShard> read();

 private:
  Status read_inputs();
  Status read_outputs();
  Status find_conv_inputs();
  Status read_operator(const Operator& node);
  Status read_general(Builtin code, const Operator& node, uint32_t operands);
  Status read_fully_connected(const Operator& node);
  Status read_gelu(const Operator& node);
  Status read_copy(const Operator& node);
  Status read_conv(const Operator& node);
  Status read_topk(const Operator& node);
  Result<bool> read_reordering(Builtin code, const Operator& node);
  Result<bool> is_one(int32_t tensor) const;
  Result<bool> is_all(double number, int32_t tensor) const;

  Result<Builtin> code_of(const Operator& node) const;
  Result<ValueId> value_of(int32_t tensor);
  Result<ValueId> channels_first(int32_t tensor);
  Status read_source(int32_t tensor);
  Status append(OpData data, std::vector<ValueId> operands, const std::vector<int32_t>& tensors);
  Result<ValueId> append_inner(OpData data, std::vector<ValueId> operands);
  Status bind(int32_t tensor, ValueId value);
  Status define(int32_t tensor, ValueId value);
  Result<std::vector<int64_t>> integers(const Operator& node, uint32_t input) const;
  Result<Type> stated_type(int32_t tensor) const;
  std::string claim_name(int32_t tensor);
  std::map<int32_t, std::string> port_names(
      const flatbuffers::Vector<flatbuffers::Offset<tflite::TensorMap>>* ports) const;

  const TfliteFile& file_;
  const tflite::SubGraph& subgraph_;
  const tflite::SignatureDef* signature_;
  const GraphMetadata& metadata_;
  const TensorReader tensors_;
  LoadedShard out_;
  std::vector<ValueId> values_;  // by tensor
  IrNames names_;
  std::set<int32_t> conv_inputs_;
  // The values [1, C, T, 1] of tensors [1, 1, T, C], which are operands and results of CONV_2D.
  std::map<int32_t, ValueId> channels_first_;
  std::map<int32_t, ValueId> narrow_indices_;  // i64 values of the i32 indices of TOPK_V2
};

Result<LoadedShard> SubgraphReader::read() {
  out_.shard.name = IrNames::legal(metadata_.shard);
  if (out_.shard.name.empty()) out_.shard.name = "graph";
  out_.shard.form = Form::placed;
  out_.weights.files.push_back({file_.path, file_.bytes, {}});
  MOEC_TRY(read_inputs());
  MOEC_TRY(find_conv_inputs());
  if (subgraph_.operators())
    for (const Operator* node : *subgraph_.operators()) MOEC_TRY(read_operator(*node));
  MOEC_TRY(read_outputs());
  if (Diagnostics findings = verify(out_.shard); has_error(findings))
    return fail(std::move(findings));
  if (out_.weights.tensors.empty()) out_.weights.files.clear();
  out_.owners = metadata_.owners;
  out_.nodes = tflite_op_names(out_.shard);
  return std::move(out_);
}

// ---- Values ------------------------------------------------------------------------------------

std::string SubgraphReader::claim_name(int32_t tensor) {
  const std::string name = tensors_.name(tensor);
  const auto label = metadata_.labels.find(name);
  return names_.claim(label == metadata_.labels.end() ? label_of_tensor(metadata_.shard, name)
                                                      : label->second);
}

Result<Type> SubgraphReader::stated_type(int32_t tensor) const {
  MOEC_TRY(tensors_.check_index(tensor));
  MOEC_ASSIGN(Type type, tensors_.type(tensor));
  if (const auto layout = metadata_.layouts.find(tensors_.name(tensor));
      layout != metadata_.layouts.end())
    type.layout = layout->second;
  return type;
}

// TFLite has no layouts, so the comparison ignores them.
Status SubgraphReader::bind(int32_t tensor, ValueId value) {
  MOEC_ASSIGN(Type stated, stated_type(tensor));
  Type inferred = out_.shard.type(value);
  stated.layout = inferred.layout;
  if (stated != inferred)
    return fail("tflite.type_mismatch",
                fmt::format("the file states type {}, but its ops produce {}", to_string(stated),
                            to_string(inferred)),
                "export the model again", {.tensor = tensors_.name(tensor)});
  if (at(values_, tensor).valid() || tensors_.is_constant(tensor))
    return fail("tflite.duplicate_name", "a tensor is defined twice", "export the model again",
                {.tensor = tensors_.name(tensor)});
  at(values_, tensor) = value;
  return {};
}

// Binds a computed value, which gets the name of its tensor.
Status SubgraphReader::define(int32_t tensor, ValueId value) {
  MOEC_TRY(bind(tensor, value));
  out_.shard.values[value].name = claim_name(tensor);
  return {};
}

// The values of an input that is an i32 constant. Fails if the operator has no such input.
Result<std::vector<int64_t>> SubgraphReader::integers(const Operator& node, uint32_t input) const {
  return tensors_.integers(input < node.inputs()->size() ? node.inputs()->Get(input) : -1);
}

Result<ValueId> SubgraphReader::value_of(int32_t tensor) {
  MOEC_TRY(tensors_.check_index(tensor));
  if (!at(values_, tensor).valid()) {
    if (!tensors_.is_constant(tensor))
      return fail("tflite.undefined", "a tensor is used before its definition",
                  "export the model again", {.tensor = tensors_.name(tensor)});
    MOEC_TRY(read_source(tensor));
  }
  return at(values_, tensor);
}

// Buffers after the flatbuffer become weights, and buffers inside it constants.
Status SubgraphReader::read_source(int32_t tensor) {
  if (is_coded(tensors_, tensor)) {
    MOEC_ASSIGN(WeightView view, read_coded(tensors_, tensor, out_.weights));
    MOEC_ASSIGN(at(values_, tensor), append_inner(Weight{std::move(view)}, {}));
    out_.shard.values[at(values_, tensor)].name = claim_name(tensor);
    return {};
  }
  MOEC_ASSIGN(const Type type, stated_type(tensor));
  const std::string name = tensors_.name(tensor);
  if (tensors_.is_in_file(tensor)) {
    Type plain = type;
    plain.layout = Layout::plain;
    MOEC_ASSIGN(TensorRange range, tensors_.range(tensor, plain));
    if (!out_.weights.tensors.emplace(name, std::move(range)).second)
      return fail("tflite.duplicate_name", "two weights have one name", "export the model again",
                  {.tensor = name});
    MOEC_ASSIGN(at(values_, tensor), append_inner(Weight{tensor_view(name, plain)}, {}));
  } else {
    MOEC_ASSIGN(std::vector<double> values, tensors_.values(tensor, type));
    MOEC_ASSIGN(at(values_, tensor), append_inner(Constant{type, std::move(values)}, {}));
  }
  out_.shard.values[at(values_, tensor)].name = claim_name(tensor);
  return {};
}

// Appends an op whose results have no tensors, and returns its first result.
Result<ValueId> SubgraphReader::append_inner(OpData data, std::vector<ValueId> operands) {
  std::vector<Type> types;
  for (const ValueId operand : operands) types.push_back(out_.shard.type(operand));
  // TFLite shards have no states, so the lookup finds none.
  const Inferred inferred = infer(data, types, [](std::string_view) { return nullptr; });
  if (!inferred.violations.empty())
    return fail(inferred.violations.front().code, inferred.violations.front().message,
                "export the model again");
  const OpId op = out_.shard.ops.push({std::move(data), std::move(operands), {}});
  for (const Type& type : inferred.results)
    out_.shard.ops[op].results.push_back(out_.shard.values.push({type, {}, op}));
  return out_.shard.ops[op].results.front();
}

Status SubgraphReader::append(OpData data, std::vector<ValueId> operands,
                              const std::vector<int32_t>& tensors) {
  MOEC_ASSIGN(const ValueId first, append_inner(std::move(data), std::move(operands)));
  const std::vector<ValueId> results = out_.shard.ops[out_.shard.values[first].producer].results;
  if (tensors.size() != results.size())
    return fail_op(
        fmt::format("an operator has {} outputs, expected {}", tensors.size(), results.size()));
  for (size_t i = 0; i < results.size(); ++i) MOEC_TRY(define(tensors[i], results[i]));
  return {};
}

// ---- Operators ---------------------------------------------------------------------------------

Result<Builtin> SubgraphReader::code_of(const Operator& node) const {
  const auto* codes = file_.model->operator_codes();
  if (!codes || node.opcode_index() >= codes->size())
    return fail_op(fmt::format("operator code {} does not exist", node.opcode_index()));
  const tflite::OperatorCode& code = *codes->Get(node.opcode_index());
  // Files of old tools have only the first field.
  return static_cast<Builtin>(
      std::max<int32_t>(code.deprecated_builtin_code(), static_cast<int32_t>(code.builtin_code())));
}

Status SubgraphReader::read_operator(const Operator& node) {
  MOEC_ASSIGN(const Builtin code, code_of(node));
  MOEC_ASSIGN(const uint32_t operands, operand_count(code, node));
  MOEC_ASSIGN(const bool done, read_reordering(code, node));
  if (done) return {};
  if (code == Builtin::FULLY_CONNECTED) return read_fully_connected(node);
  if (code == Builtin::GELU) return read_gelu(node);
  if (code == Builtin::BROADCAST_TO) return read_copy(node);
  if (code == Builtin::CONV_2D) return read_conv(node);
  if (code == Builtin::TOPK_V2) return read_topk(node);
  if (code == Builtin::DIV) {
    MOEC_ASSIGN(const bool reciprocal, is_one(node.inputs()->Get(0)));
    if (reciprocal) {
      MOEC_ASSIGN(const ValueId x, value_of(node.inputs()->Get(1)));
      return append(Unary{UnaryFn::reciprocal}, {x}, {node.outputs()->Get(0)});
    }
  }
  return read_general(code, node, operands);
}

Status SubgraphReader::read_general(Builtin code, const Operator& node, uint32_t operands) {
  std::vector<ValueId> values;
  std::vector<Type> types;
  for (uint32_t i = 0; i < operands; ++i) {
    MOEC_ASSIGN(const ValueId value, value_of(node.inputs()->Get(i)));
    values.push_back(value);
    types.push_back(out_.shard.type(value));
  }
  NodeInputs inputs{types, {}, [&](uint32_t input) { return integers(node, input); }};
  MOEC_ASSIGN(inputs.result, stated_type(node.outputs()->Get(0)));
  MOEC_ASSIGN(OpData data, read_node(code, node, inputs));
  return append(std::move(data), std::move(values),
                {node.outputs()->begin(), node.outputs()->end()});
}

// True for a constant of shape [1] and value 1, with which moec writes reciprocals.
Result<bool> SubgraphReader::is_one(int32_t tensor) const {
  MOEC_TRY(tensors_.check_index(tensor));
  MOEC_ASSIGN(const Type type, tensors_.type(tensor));
  if (type.dims != Dims{1}) return false;
  return is_all(1, tensor);
}

// True for a constant inside the flatbuffer with only this value.
Result<bool> SubgraphReader::is_all(double number, int32_t tensor) const {
  MOEC_TRY(tensors_.check_index(tensor));
  if (!tensors_.is_constant(tensor) || tensors_.is_in_file(tensor)) return false;
  MOEC_ASSIGN(const Type type, tensors_.type(tensor));
  MOEC_ASSIGN(const std::vector<double> values, tensors_.values(tensor, type));
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == number; });
}

// A FULLY_CONNECTED multiplies by the transpose of its weight, reshaped to the rank of its input.
Status SubgraphReader::read_fully_connected(const Operator& node) {
  if (node.inputs()->size() > 2 && node.inputs()->Get(2) >= 0)
    return fail_op("a FULLY_CONNECTED with a bias is unsupported");
  MOEC_ASSIGN(const ValueId x, value_of(node.inputs()->Get(0)));
  MOEC_ASSIGN(const ValueId rows, value_of(node.inputs()->Get(1)));
  MOEC_TRY(check_fully_connected(node, out_.shard.type(x).rank()));
  MOEC_ASSIGN(ValueId columns, append_inner(Transpose{{1, 0}, Layout::plain}, {rows}));
  // The IR's MatMul requires operands of equal rank, so the weight gets leading sizes of 1.
  Dims dims(std::max<size_t>(out_.shard.type(x).dims.size(), 2), 1);
  dims.at(dims.rank() - 2) = out_.shard.type(rows).dims.at(1);
  dims.back() = out_.shard.type(rows).dims.at(0);
  if (dims.rank() > 2) {
    MOEC_ASSIGN(columns, append_inner(Reshape{dims, Layout::plain}, {columns}));
  }
  return append(MatMul{}, {x, columns}, {node.outputs()->begin(), node.outputs()->end()});
}

// x · ((erf(x / √2) + 1) / 2), as fused_forms.h recognizes it.
Status SubgraphReader::read_gelu(const Operator& node) {
  MOEC_TRY(check_gelu(node));
  MOEC_ASSIGN(const ValueId x, value_of(node.inputs()->Get(0)));
  const auto with_scalar = [&](BinaryFn fn, ValueId left, double number) -> Result<ValueId> {
    const Type scalar{out_.shard.type(x).dtype, {}};
    MOEC_ASSIGN(const ValueId right, append_inner(Constant{scalar, {number}}, {}));
    return append_inner(Binary{fn}, {left, right});
  };
  MOEC_ASSIGN(const ValueId bent, with_scalar(BinaryFn::mul, x, 1 / std::numbers::sqrt2));
  MOEC_ASSIGN(const ValueId erf, append_inner(Unary{UnaryFn::erf}, {bent}));
  MOEC_ASSIGN(const ValueId sum, with_scalar(BinaryFn::add, erf, 1));
  MOEC_ASSIGN(const ValueId share, with_scalar(BinaryFn::mul, sum, 0.5));
  return append(Binary{BinaryFn::mul}, {x, share},
                {node.outputs()->begin(), node.outputs()->end()});
}

// A BROADCAST_TO of a value to its own shape copies it, so it gives it a second tensor.
Status SubgraphReader::read_copy(const Operator& node) {
  MOEC_ASSIGN(const ValueId value, value_of(node.inputs()->Get(0)));
  MOEC_ASSIGN(const Type stated, stated_type(node.outputs()->Get(0)));
  if (stated.dims != out_.shard.type(value).dims)
    return fail_op("a BROADCAST_TO another shape is unsupported");
  return bind(node.outputs()->Get(0), value);
}

Status SubgraphReader::read_topk(const Operator& node) {
  MOEC_ASSIGN(const ValueId x, value_of(node.inputs()->Get(0)));
  MOEC_ASSIGN(const std::vector<int64_t> k, integers(node, 1));
  if (k.size() != 1 || node.outputs()->size() != 2)
    return fail_op("TOPK_V2 must have one k and two outputs");
  MOEC_ASSIGN(const ValueId values,
              append_inner(TopK{k.front(), out_.shard.type(x).rank() - 1}, {x}));
  MOEC_TRY(define(node.outputs()->Get(0), values));
  narrow_indices_[node.outputs()->Get(1)] =
      out_.shard.ops[out_.shard.values[values].producer].results[1];
  return {};
}

// ---- Convolutions ------------------------------------------------------------------------------

// The tensors whose transposes to channels last are part of a convolution.
Status SubgraphReader::find_conv_inputs() {
  if (!subgraph_.operators()) return {};
  for (const Operator* node : *subgraph_.operators()) {
    MOEC_ASSIGN(const Builtin code, code_of(*node));
    if (code == Builtin::CONV_2D && node->inputs() && node->inputs()->size() > 1)
      conv_inputs_.insert({node->inputs()->Get(0), node->inputs()->Get(1)});
  }
  return {};
}

// Reads an operator that only changes the form of a value: a transpose before or after a
// convolution, or a cast of TOPK_V2's indices. Returns false for others.
Result<bool> SubgraphReader::read_reordering(Builtin code, const Operator& node) {
  const int32_t from = node.inputs()->Get(0), to = node.outputs()->Get(0);
  if (code == Builtin::CAST && narrow_indices_.contains(from)) {
    MOEC_TRY(define(to, narrow_indices_.at(from)));
    return true;
  }
  const bool opens = conv_inputs_.contains(to), closes = channels_first_.contains(from);
  if (code != Builtin::TRANSPOSE || !(opens || closes)) return false;
  MOEC_ASSIGN(const std::vector<int64_t> perm, integers(node, 1));
  if (perm != kChannelsLast) return false;
  if (closes) {
    MOEC_TRY(define(to, channels_first_.at(from)));
    return true;
  }
  MOEC_ASSIGN(channels_first_[to], value_of(from));
  return true;
}

// The value [1, C, T, 1] of an operand of a convolution. A filter of one channel per group is in
// that order already.
Result<ValueId> SubgraphReader::channels_first(int32_t tensor) {
  if (const auto found = channels_first_.find(tensor); found != channels_first_.end())
    return found->second;
  MOEC_ASSIGN(const ValueId value, value_of(tensor));
  const Dims& dims = out_.shard.type(value).dims;
  if (dims.rank() == 4 && dims.at(1) == 1 && dims.at(3) == 1) return value;
  return fail_op("CONV_2D is supported only between transposes of its channels");
}

Status SubgraphReader::read_conv(const Operator& node) {
  MOEC_TRY(check_conv(node));
  std::vector<ValueId> operands;
  for (uint32_t i = 0; i < 2; ++i) {
    MOEC_ASSIGN(const ValueId operand, channels_first(node.inputs()->Get(i)));
    operands.push_back(operand);
  }
  if (node.inputs()->size() > 2 && node.inputs()->Get(2) >= 0) {
    MOEC_ASSIGN(const bool absent, is_all(0, node.inputs()->Get(2)));
    if (!absent) {
      MOEC_ASSIGN(const ValueId bias, value_of(node.inputs()->Get(2)));
      operands.push_back(bias);
    }
  }
  const Dims &x = out_.shard.type(operands[0]).dims, &filter = out_.shard.type(operands[1]).dims;
  if (x.rank() != 4 || filter.rank() != 4) return fail_op("CONV_2D requires operands of rank 4");
  // infer() rejects channels that are not a multiple of those of a group.
  MOEC_ASSIGN(channels_first_[node.outputs()->Get(0)],
              append_inner(Conv{x.at(1) / filter.at(1)}, operands));
  return {};
}

// ---- Ports -------------------------------------------------------------------------------------

std::map<int32_t, std::string> SubgraphReader::port_names(
    const flatbuffers::Vector<flatbuffers::Offset<tflite::TensorMap>>* ports) const {
  std::map<int32_t, std::string> names;
  if (ports)
    for (const tflite::TensorMap* port : *ports)
      if (port->name()) names[static_cast<int32_t>(port->tensor_index())] = port->name()->str();
  return names;
}

Status SubgraphReader::read_inputs() {
  const auto names = port_names(signature_ ? signature_->inputs() : nullptr);
  if (!subgraph_.inputs()) return {};
  for (const int32_t tensor : *subgraph_.inputs()) {
    MOEC_ASSIGN(const Type type, stated_type(tensor));
    const auto named = names.find(tensor);
    const std::string name = named == names.end() ? tensors_.name(tensor) : named->second;
    const ValueId value = out_.shard.values.push({type, names_.claim(name), OpId{}});
    out_.shard.inputs.push_back(value);
    MOEC_TRY(bind(tensor, value));
  }
  return {};
}

Status SubgraphReader::read_outputs() {
  const auto names = port_names(signature_ ? signature_->outputs() : nullptr);
  if (!subgraph_.outputs()) return {};
  for (const int32_t tensor : *subgraph_.outputs()) {
    MOEC_ASSIGN(const ValueId value, value_of(tensor));
    const auto named = names.find(tensor);
    out_.shard.outputs.push_back(
        {named == names.end() ? tensors_.name(tensor) : named->second, value});
  }
  return {};
}

}  // namespace

Result<LoadedShard> read_subgraph(const TfliteFile& file, const SignedSubgraph& of,
                                  const GraphMetadata& metadata) {
  return SubgraphReader(file, of, metadata).read();
}

}  // namespace moec
