#include "backends/formats/onnx/graph_reader.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <map>

#include "backends/formats/onnx/external_data.h"
#include "backends/formats/onnx/node_ops.h"
#include "backends/formats/onnx/read_moe.h"
#include "backends/formats/onnx/read_onnx_codes.h"
#include "backends/formats/onnx/tensor_data.h"
#include "ir/graph/infer.h"
#include "ir/verify/verify.h"

namespace moec {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using onnx::ValueInfoProto;

class GraphReader {
 public:
  GraphReader(const onnx::GraphProto& graph, const GraphMetadata& metadata,
              const std::string& folder)
      : graph_(graph), metadata_(metadata), folder_(folder), decoders_(graph), moes_(graph) {}

  Result<LoadedShard> read() {
    out_.shard.name = IrNames::legal(metadata_.shard.empty() ? graph_.name() : metadata_.shard);
    if (out_.shard.name.empty()) out_.shard.name = "graph";
    out_.shard.form = Form::placed;
    MOEC_TRY(index_tensors());
    MOEC_TRY(read_inputs());
    MOEC_TRY(read_ops());
    MOEC_TRY(read_outputs());
    if (Diagnostics findings = verify(out_.shard); has_error(findings))
      return fail(std::move(findings));
    out_.owners = metadata_.owners;
    return std::move(out_);
  }

 private:
  Status index_tensors();
  Status read_inputs();
  Status read_ops();
  Status read_outputs();
  Status read_named(const NodeProto& node);
  Status read_node(const NodeProto& node);
  Status read_source(const TensorProto& tensor);
  Status read_splat(const NodeProto& node);
  Status read_identity(const NodeProto& node);
  Status read_coded(const Decoder& decoder);
  Status read_nbits_product(const NodeProto& node);
  Status read_experts(const MoeNodes& nodes);

  Result<ValueId> value_of(const std::string& tensor);
  Result<std::vector<int64_t>> integers_of(const std::string& tensor) const;
  Status append(OpData data, std::vector<ValueId> operands, std::vector<std::string> tensors);
  ValueId last_result() const;
  Status define(const std::string& tensor, const Type& type, OpId producer);
  Status bind(const std::string& tensor, ValueId value);
  Status check_stated(const ValueInfoProto& info, ValueId value) const;
  std::string claim_name(const std::string& tensor);
  Layout layout_of(const std::string& tensor) const;

  const onnx::GraphProto& graph_;
  const GraphMetadata& metadata_;
  const std::string& folder_;
  LoadedShard out_;
  std::map<std::string, ValueId, std::less<>> values_;
  Initializers initializers_;
  Decoders decoders_;
  MoeReader moes_;
  std::map<std::string_view, const ValueInfoProto*> stated_;
  IrNames names_;
};

// ---- Names -------------------------------------------------------------------------------------

// The keys are views of the graph, which outlives the reader.
Status GraphReader::index_tensors() {
  for (const ValueInfoProto& info : graph_.value_info()) stated_[info.name()] = &info;
  for (const TensorProto& tensor : graph_.initializer())
    if (tensor.name().empty() || !initializers_.emplace(tensor.name(), &tensor).second)
      return fail("onnx.duplicate_name",
                  "an initializer has no name, or the name of another initializer",
                  "export the model again", {.tensor = tensor.name()});
  return {};
}

std::string GraphReader::claim_name(const std::string& tensor) {
  const auto label = metadata_.labels.find(tensor);
  return names_.claim(label == metadata_.labels.end() ? tensor : label->second);
}

Layout GraphReader::layout_of(const std::string& tensor) const {
  const auto found = metadata_.layouts.find(tensor);
  return found == metadata_.layouts.end() ? Layout::plain : found->second;
}

// ONNX graphs are in single static assignment form: no tensor is defined twice.
Status GraphReader::bind(const std::string& tensor, ValueId value) {
  if (!tensor.empty() && values_.emplace(tensor, value).second) return {};
  return fail("onnx.duplicate_name", "a tensor has no name, or the name of an earlier tensor",
              "export the model again", {.tensor = tensor});
}

// Creates the value of a tensor. Without a producer, the value is an input of the shard.
Status GraphReader::define(const std::string& tensor, const Type& type, OpId producer) {
  const ValueId value = out_.shard.values.push({type, claim_name(tensor), producer});
  if (producer.valid())
    out_.shard.ops[producer].results.push_back(value);
  else
    out_.shard.inputs.push_back(value);
  MOEC_TRY(bind(tensor, value));
  const auto stated = stated_.find(tensor);
  return stated == stated_.end() ? Status() : check_stated(*stated->second, value);
}

// ONNX has no layouts, so the comparison ignores them.
Status GraphReader::check_stated(const ValueInfoProto& info, ValueId value) const {
  MOEC_ASSIGN(Type stated, value_type(info));
  Type inferred = out_.shard.type(value);
  inferred.layout = stated.layout;
  if (stated == inferred) return {};
  return fail("onnx.type_mismatch",
              fmt::format("the graph states type {}, but its ops produce {}", to_string(stated),
                          to_string(inferred)),
              "export the model again", {.tensor = info.name()});
}

// Creates the op of an initializer on its first use. In moec's own files read_ops() has already
// created it, because the metadata state its position.
Result<ValueId> GraphReader::value_of(const std::string& tensor) {
  if (const auto found = values_.find(tensor); found != values_.end()) return found->second;
  const auto initializer = initializers_.find(tensor);
  if (initializer == initializers_.end())
    return fail("onnx.undefined", "a tensor is used before its definition",
                "export the model again", {.tensor = tensor});
  MOEC_TRY(read_source(*initializer->second));
  const Decoder* decoder = decoders_.of_codes(tensor);
  return values_.at(decoder ? decoded_name(*decoder) : tensor);
}

// Sizes and axes must be known when the graph is read, because shards are static.
Result<std::vector<int64_t>> GraphReader::integers_of(const std::string& tensor) const {
  const auto initializer = initializers_.find(tensor);
  if (initializer == initializers_.end())
    return fail("onnx.constant_input", "sizes and axes must be initializers",
                "export the model with static shapes", {.tensor = tensor});
  return inline_integers(*initializer->second);
}

// ---- Ops ---------------------------------------------------------------------------------------

Status GraphReader::append(OpData data, std::vector<ValueId> operands,
                           std::vector<std::string> tensors) {
  std::vector<Type> types;
  for (ValueId operand : operands) types.push_back(out_.shard.type(operand));
  // ONNX has no states, so the lookup finds none.
  const Inferred inferred = infer(data, types, [](std::string_view) { return nullptr; });
  const std::string label = tensors.empty() ? std::string() : tensors.front();
  if (!inferred.violations.empty())
    return fail(inferred.violations.front().code, inferred.violations.front().message,
                "export the model again", {.op = label});
  // ONNX allows trailing outputs to be omitted.
  if (tensors.empty() || tensors.size() > inferred.results.size())
    return fail("onnx.op", fmt::format("{} has {} outputs", mnemonic(data), tensors.size()),
                "export the model again", {.op = label});
  const OpId op = out_.shard.ops.push({std::move(data), std::move(operands), {}});
  for (size_t i = 0; i < inferred.results.size(); ++i) {
    if (i < tensors.size() && !tensors[i].empty())
      MOEC_TRY(define(tensors[i], inferred.results[i], op));
    else
      out_.shard.ops[op].results.push_back(out_.shard.values.push({inferred.results[i], {}, op}));
  }
  return {};
}

ValueId GraphReader::last_result() const {
  const OpId last{static_cast<uint32_t>(out_.shard.ops.size() - 1)};
  return out_.shard.ops[last].results.front();
}

// Appends a weight that is stored as codes.
Status GraphReader::read_coded(const Decoder& decoder) {
  MOEC_ASSIGN(WeightView view, read_coded_weight(decoder, initializers_, folder_, out_.weights));
  return append(Weight{std::move(view)}, {}, {decoded_name(decoder)});
}

// A MatMulNBits multiplies by the transpose of its weight, reshaped to the rank of the first input.
Status GraphReader::read_nbits_product(const NodeProto& node) {
  MOEC_ASSIGN(const ValueId x, value_of(node.input(0)));
  MOEC_ASSIGN(const ValueId weight, value_of(node.input(1)));
  MOEC_TRY(append(Transpose{{1, 0}, Layout::plain}, {weight}, {""}));
  const Dims& rows = out_.shard.type(weight).dims;
  // The IR's MatMul requires operands of equal rank, so the weight gets leading sizes of 1.
  Dims columns(std::max<size_t>(out_.shard.type(x).dims.size(), 2), 1);
  columns.at(columns.rank() - 2) = rows.at(1);
  columns.back() = rows.at(0);
  if (columns.rank() > 2) MOEC_TRY(append(Reshape{columns, Layout::plain}, {last_result()}, {""}));
  return append(MatMul{}, {x, last_result()}, {node.output().begin(), node.output().end()});
}

Status GraphReader::read_experts(const MoeNodes& nodes) {
  MOEC_ASSIGN(Moe op, read_moe(nodes));
  std::vector<ValueId> operands;
  for (const std::string& tensor : moe_tensors(nodes)) {
    MOEC_ASSIGN(const ValueId value, value_of(tensor));
    operands.push_back(value);
  }
  return append(op, std::move(operands), {nodes.last->output(0)});
}

// External data become weights, and inline data become constants. Codes become the weight that they
// encode.
Status GraphReader::read_source(const TensorProto& tensor) {
  if (const Decoder* decoder = decoders_.of_codes(tensor.name())) return read_coded(*decoder);
  MOEC_ASSIGN(Type type, tensor_type(tensor));
  if (tensor.data_location() == TensorProto::EXTERNAL) {
    MOEC_TRY(add_external(tensor, type, folder_, out_.weights));
    return append(Weight{tensor_view(tensor.name(), type)}, {}, {tensor.name()});
  }
  MOEC_ASSIGN(std::vector<double> values, inline_values(tensor, type));
  type.layout = layout_of(tensor.name());
  return append(Constant{type, std::move(values)}, {}, {tensor.name()});
}

// GraphWriter writes a constant with equal elements as an Expand of one value.
Status GraphReader::read_splat(const NodeProto& node) {
  const auto initializer =
      node.input_size() == 2 ? initializers_.find(node.input(0)) : initializers_.end();
  if (initializer == initializers_.end() || node.output_size() != 1 || node.attribute_size() != 0 ||
      initializer->second->data_location() == TensorProto::EXTERNAL)
    return fail("onnx.op", "Expand is supported only for a constant of one value",
                "export the model again", {.op = node.name()});
  MOEC_ASSIGN(const Type scalar, tensor_type(*initializer->second));
  if (scalar.elements() != 1)
    return fail("onnx.op", "Expand is supported only for a constant of one value",
                "export the model again", {.op = node.name()});
  MOEC_ASSIGN(std::vector<double> value, inline_values(*initializer->second, scalar));
  MOEC_ASSIGN(Dims dims, integers_of(node.input(1)));
  Constant splat{{scalar.dtype, std::move(dims), layout_of(node.output(0))}, std::move(value)};
  return append(std::move(splat), {}, {node.output(0)});
}

Status GraphReader::read_identity(const NodeProto& node) {
  if (node.input_size() != 1 || node.output_size() != 1)
    return fail("onnx.op", "Identity must have one input and one output", "export the model again",
                {.op = node.name()});
  MOEC_ASSIGN(const ValueId value, value_of(node.input(0)));
  return bind(node.output(0), value);
}

// The special cases come first: the table of node_ops.cc lacks most of them, and a Cast can be part
// of a decoder.
Status GraphReader::read_node(const NodeProto& node) {
  if (node.domain().empty() && node.op_type() == "Identity") return read_identity(node);
  if (node.domain().empty() && node.op_type() == "Expand") return read_splat(node);
  if (is_nbits(node)) return read_nbits_product(node);
  if (const MoeNodes* moe = moes_.of_node(node))
    return moe->last == &node ? read_experts(*moe) : Status();
  // Reads the weight at the position of its codes, unless it shares the codes of another node.
  if (const Decoder* decoder = decoders_.of_node(node))
    return values_.contains(decoded_name(*decoder)) ? Status() : read_coded(*decoder);
  MOEC_ASSIGN(const int operand_inputs, operand_count(node));
  std::vector<ValueId> operands;
  std::vector<Type> types;
  for (int i = 0; i < operand_inputs; ++i) {
    MOEC_ASSIGN(const ValueId value, value_of(node.input(i)));
    operands.push_back(value);
    types.push_back(out_.shard.type(value));
  }
  NodeContext context{types, Layout::plain, [&](int i) -> Result<std::vector<int64_t>> {
                        return integers_of(i < node.input_size() ? node.input(i) : "");
                      }};
  // Only reshapes and transposes use the layout; read_op() ignores it for other ops.
  if (node.output_size() > 0) context.layout = layout_of(node.output(0));
  MOEC_ASSIGN(OpData data, read_op(node, context));
  return append(std::move(data), std::move(operands), {node.output().begin(), node.output().end()});
}

// Reads a node and sets LoadedShard::nodes of the ops that it becomes.
Status GraphReader::read_named(const NodeProto& node) {
  const size_t first = out_.shard.ops.size();
  MOEC_TRY(read_node(node));
  for (size_t i = first; i < out_.shard.ops.size(); ++i) {
    const OpId op{static_cast<uint32_t>(i)};
    if (!is_source(out_.shard.ops[op].data)) out_.nodes[op] = node.name();
  }
  return {};
}

// The metadata state the positions of the first initializers in the op list; nodes fill the other
// positions. Identity nodes create no ops.
Status GraphReader::read_ops() {
  const auto& positions = metadata_.sources;
  if (positions.size() > static_cast<size_t>(graph_.initializer_size()))
    return fail("onnx.metadata", "moec.sources lists more sources than the graph has initializers",
                "export the model again");
  size_t source = 0;
  for (int node = 0; source < positions.size() || node < graph_.node_size();) {
    // Reads a source when the op list has reached the source's position.
    if (source < positions.size() && positions[source] == out_.shard.ops.size())
      MOEC_TRY(value_of(graph_.initializer(static_cast<int>(source++)).name()));
    else if (node < graph_.node_size())
      MOEC_TRY(read_named(graph_.node(node++)));
    else
      return fail("onnx.metadata", "moec.sources lists positions beyond the end of the op list",
                  "export the model again");
  }
  return {};
}

// ---- Ports -------------------------------------------------------------------------------------

Status GraphReader::read_inputs() {
  for (const ValueInfoProto& info : graph_.input()) {
    // An initializer that is also an input is a default that a caller may replace, so it is not a
    // fixed weight.
    if (initializers_.count(info.name()))
      return fail("onnx.duplicate_name", "an input has the name of an initializer",
                  "export the model again", {.tensor = info.name()});
    MOEC_ASSIGN(Type type, value_type(info));
    type.layout = layout_of(info.name());
    MOEC_TRY(define(info.name(), type, OpId{}));
  }
  return {};
}

Status GraphReader::read_outputs() {
  for (const ValueInfoProto& info : graph_.output()) {
    MOEC_ASSIGN(const ValueId value, value_of(info.name()));
    MOEC_TRY(check_stated(info, value));
    out_.shard.outputs.push_back({info.name(), value});
  }
  return {};
}

}  // namespace

Result<LoadedShard> read_graph(const onnx::GraphProto& graph, const GraphMetadata& metadata,
                               const std::string& folder) {
  return GraphReader(graph, metadata, folder).read();
}

}  // namespace moec
