#include "backends/formats/onnx/graph_writer.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <map>

#include "backends/emit/graph_metadata.h"
#include "backends/emit/metadata_keys.h"
#include "backends/emit/op_tables.h"
#include "backends/emit/shard_facts.h"
#include "backends/formats/onnx/initializers.h"
#include "backends/formats/onnx/onnx_names.h"
#include "backends/formats/onnx/onnx_types.h"
#include "backends/formats/onnx/set_attributes.h"
#include "backends/formats/onnx/weight_tensors.h"
#include "backends/formats/onnx/write_moe.h"
#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

// Opset 17 and IR version 8 are from the same release, ONNX 1.12. Later versions add nothing that
// shards use and would exclude older runtimes.

constexpr auto kUnaryTypes = name_table<UnaryFn>(
    {"Neg", "Abs", "Exp", "Log", "Sqrt", "Reciprocal", "Sigmoid", "Tanh", "Erf"});
constexpr auto kBinaryTypes = name_table<BinaryFn>({"Add", "Sub", "Mul", "Div", "Max", "Min"});
constexpr auto kCompareTypes = name_table<CompareFn>({"Greater", "Less", "Equal"});
constexpr auto kReduceTypes = name_table<ReduceFn>({"ReduceSum", "ReduceMean", "ReduceMax"});

// Ops without a node: weights are initializers, check_emittable() rejects states, and MoeWriter
// writes moe.
template <class OpT>
concept WithoutNode = LoweredOp<OpT> || OneOf<OpT, Weight, Moe> || InGroup<OpT, OpGroup::state>;

// A constant with one element is an initializer, so it needs no Expand.
bool is_splat(const Constant& constant) {
  return constant.values.size() == 1 && constant.type.elements() > 1;
}

// True if the op becomes an initializer of the graph. A splat of several elements becomes an Expand
// of a scalar instead, which needs no space in the file.
bool is_initializer(const OpData& data) {
  const auto* constant = std::get_if<Constant>(&data);
  return std::holds_alternative<Weight>(data) || (constant && !is_splat(*constant));
}

class GraphWriter {
 public:
  GraphWriter(const Shard& shard, const DataLayout& layout, const std::string& location,
              const OnnxOptions& options, onnx::GraphProto& graph)
      : shard_(shard),
        options_(options),
        names_(shard),
        graph_(graph),
        weights_(shard, layout, location, names_, graph),
        experts_(shard, names_, weights_, graph) {}

  // Initializers of sources come first, in op order, as the metadata states. Nodes may add further
  // initializers. Copies come last, because they use values of the nodes.
  void write() {
    graph_.set_name(shard_.name);
    write_ports();
    for (OpId op : op_ids(shard_))
      if (is_initializer(shard_.ops[op].data)) write_initializer(shard_.ops[op]);
    for (OpId op : op_ids(shard_)) {
      if (!is_initializer(shard_.ops[op].data))
        write_node(op);
      else if (weights_.form_of(shard_.ops[op]) == OnnxWeightForm::dequantize)
        write_dequantize(op);
    }
    for (const Output& copy : names_.copies()) write_copy(copy);
  }

  std::string sources() const;
  std::string layouts() const { return layout_lines(shard_, tensor_name()); }
  std::string value_names() const { return label_lines(shard_, tensor_name(), tensor_name()); }
  std::string owners(const MoeLayers& moe) const;

 private:
  TensorName tensor_name() const {
    return [this](ValueId value) { return names_.tensor(value); };
  }
  void write_ports();
  void write_initializer(const Op& op);
  void write_node(OpId id);
  void write_dequantize(OpId id);
  void write_nbits(OpId id, ValueId weight);
  onnx::NodeProto& add_node(OpId id);
  void add_results(const Op& op, onnx::NodeProto& node);
  void write_copy(const Output& output);
  const std::string& integers(const std::vector<int64_t>& values);

  // One overload per op sets the node's type and attributes, and adds inputs beyond the operands.
  void fill(const Constant& op, onnx::NodeProto& node);
  void fill(const Unary& op, onnx::NodeProto& node) { set_type(node, at(kUnaryTypes, op.fn)); }
  void fill(const Binary& op, onnx::NodeProto& node) { set_type(node, at(kBinaryTypes, op.fn)); }
  void fill(const Compare& op, onnx::NodeProto& node) { set_type(node, at(kCompareTypes, op.fn)); }
  void fill(const Select&, onnx::NodeProto& node) { set_type(node, "Where"); }
  void fill(const MatMul&, onnx::NodeProto& node) { set_type(node, "MatMul"); }
  void fill(const Cast& op, onnx::NodeProto& node);
  void fill(const Conv& op, onnx::NodeProto& node);
  void fill(const Reduce& op, onnx::NodeProto& node);
  void fill(const Softmax& op, onnx::NodeProto& node);
  void fill(const TopK& op, onnx::NodeProto& node);
  void fill(const Slice& op, onnx::NodeProto& node);
  void fill(const Concat& op, onnx::NodeProto& node);
  void fill(const Reshape& op, onnx::NodeProto& node);
  void fill(const Transpose& op, onnx::NodeProto& node);
  template <WithoutNode OpT>
  void fill(const OpT& op, onnx::NodeProto&) {
    MOEC_CHECK(false, "shard {} contains a {}, which has no ONNX node", shard_.name, mnemonic(op));
  }

  static void set_type(onnx::NodeProto& node, std::string_view type) {
    node.set_op_type(std::string(type));
  }
  const Shard& shard_;
  const OnnxOptions& options_;
  GraphNames names_;
  onnx::GraphProto& graph_;
  WeightTensors weights_;
  MoeWriter experts_;
  std::map<std::vector<int64_t>, std::string> integers_;
};

void GraphWriter::write_ports() {
  for (ValueId input : shard_.inputs)
    fill_value_info(names_.tensor(input), shard_.type(input), *graph_.add_input());
  for (const Output& output : shard_.outputs)
    fill_value_info(output.name, shard_.type(output.value), *graph_.add_output());
}

void GraphWriter::write_initializer(const Op& op) {
  const ValueId value = op.results.front();
  const auto* constant = std::get_if<Constant>(&op.data);
  if (!constant) return weights_.add(value);
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(names_.tensor(value));
  fill_inline(shard_.type(value), constant->values, tensor);
}

onnx::NodeProto& GraphWriter::add_node(OpId id) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_name(names_.node(id));
  return node;
}

void GraphWriter::add_results(const Op& op, onnx::NodeProto& node) {
  for (ValueId result : op.results) {
    node.add_output(names_.tensor(result));
    // write_ports() has described the outputs. Inputs are not results of an op.
    bool is_port = false;
    for (const Output& output : shard_.outputs) is_port |= output.name == names_.tensor(result);
    if (!is_port)
      fill_value_info(names_.tensor(result), shard_.type(result), *graph_.add_value_info());
  }
}

void GraphWriter::write_dequantize(OpId id) {
  const Op& op = shard_.ops[id];
  add_results(op, weights_.add_dequantize(op.results.front(), names_.node(id)));
}

void GraphWriter::write_nbits(OpId id, ValueId weight) {
  const Op& op = shard_.ops[id];
  onnx::NodeProto& node = add_node(id);
  node.add_input(names_.tensor(op.operands[0]));
  weights_.fill_nbits(weight, node);
  set_int(node, "accuracy_level", options_.accuracy_level);
  add_results(op, node);
}

// A transpose or reshape that a MatMulNBits absorbs has no node.
void GraphWriter::write_node(OpId id) {
  const Op& op = shard_.ops[id];
  if (is_inside_nbits(shard_, op)) return;
  if (const ValueId weight = nbits_weight(shard_, op); weight.valid())
    return write_nbits(id, weight);
  if (std::holds_alternative<Moe>(op.data)) return add_results(op, experts_.add(id, integers({1})));
  onnx::NodeProto& node = add_node(id);
  for (ValueId operand : op.operands) node.add_input(names_.tensor(operand));
  add_results(op, node);
  std::visit([&](const auto& data) { fill(data, node); }, op.data);
}

// A tensor has one name, so a second name needs an Identity.
void GraphWriter::write_copy(const Output& output) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_name(names_.fresh_node(output.name));
  set_type(node, "Identity");
  node.add_input(names_.tensor(output.value));
  node.add_output(output.name);
}

// The name of an initializer with these integers, shared by all nodes that need them.
const std::string& GraphWriter::integers(const std::vector<int64_t>& values) {
  // A shard has thousands of sizes and axes but few distinct values.
  std::string& name = integers_[values];
  if (!name.empty()) return name;
  name = names_.fresh("i64" + to_string(values));
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  fill_integers(values, tensor);
  return name;
}

// ---- Ops ---------------------------------------------------------------------------------------

// Only splats become nodes (is_initializer()).
void GraphWriter::fill(const Constant& op, onnx::NodeProto& node) {
  set_type(node, "Expand");
  onnx::TensorProto& scalar = *graph_.add_initializer();
  scalar.set_name(names_.fresh(node.output(0) + ".value"));
  fill_inline({op.type.dtype, {}}, op.values, scalar);
  node.add_input(scalar.name());
  node.add_input(integers(op.type.dims));
}

void GraphWriter::fill(const Cast& op, onnx::NodeProto& node) {
  set_type(node, "Cast");
  set_int(node, "to", *onnx_dtype(op.dtype));
}

// The defaults of the other attributes are stride 1, no padding and no dilation, as in the IR.
void GraphWriter::fill(const Conv& op, onnx::NodeProto& node) {
  set_type(node, "Conv");
  set_int(node, "group", op.groups);
}

void GraphWriter::fill(const Reduce& op, onnx::NodeProto& node) {
  set_type(node, at(kReduceTypes, op.fn));
  // Before opset 18 only ReduceSum has its axes as an input.
  if (op.fn == ReduceFn::sum)
    node.add_input(integers({op.axis}));
  else
    set_ints(node, "axes", {op.axis});
  // The IR keeps a reduced axis with size 1.
  set_int(node, "keepdims", 1);
}

void GraphWriter::fill(const Softmax& op, onnx::NodeProto& node) {
  set_type(node, "Softmax");
  set_int(node, "axis", op.axis);
}

void GraphWriter::fill(const TopK& op, onnx::NodeProto& node) {
  set_type(node, "TopK");
  node.add_input(integers({op.k}));
  set_int(node, "axis", op.axis);
  set_int(node, "largest", 1);
  set_int(node, "sorted", 1);
}

void GraphWriter::fill(const Slice& op, onnx::NodeProto& node) {
  set_type(node, "Slice");
  node.add_input(integers({op.begin}));
  // The end of a slice is exclusive.
  node.add_input(integers({op.begin + op.size}));
  node.add_input(integers({op.axis}));
}

void GraphWriter::fill(const Concat& op, onnx::NodeProto& node) {
  set_type(node, "Concat");
  set_int(node, "axis", op.axis);
}

void GraphWriter::fill(const Reshape& op, onnx::NodeProto& node) {
  set_type(node, "Reshape");
  node.add_input(integers(op.dims));
}

void GraphWriter::fill(const Transpose& op, onnx::NodeProto& node) {
  set_type(node, "Transpose");
  set_ints(node, "perm", op.perm);
}

// ---- Metadata ----------------------------------------------------------------------------------

// The positions of the sources in the shard's op list. ONNX lists initializers separately from
// nodes; the reader restores the op order from these positions.
std::string GraphWriter::sources() const {
  std::string positions;
  for (OpId op : op_ids(shard_))
    if (is_initializer(shard_.ops[op].data))
      positions += fmt::format("{}{}", positions.empty() ? "" : " ", op.index);
  return positions;
}

std::string GraphWriter::owners(const MoeLayers& moe) const {
  return to_text(owners_of(shard_, moe, tensor_name()));
}

void add_metadata(onnx::ModelProto& model, std::string key, std::string value) {
  // Readers treat an absent entry as an empty one.
  if (value.empty()) return;
  auto& entry = *model.add_metadata_props();
  entry.set_key(std::move(key));
  entry.set_value(std::move(value));
}

// The domain is imported only if it is used, so that plain models run in runtimes without it.
bool uses_microsoft_ops(const onnx::GraphProto& graph) {
  for (const onnx::NodeProto& node : graph.node())
    if (node.domain() == kMicrosoftDomain) return true;
  return false;
}

}  // namespace

// GraphNames depends only on the shard, so these names equal those in write_model().
void collect_weights(const Shard& shard, const ExpertLayout& experts, DataLayout& layout) {
  const GraphNames names(shard);
  ExpertOrder order(shard, experts);
  for (const OpId id : order.ops())
    if (const auto* weight = std::get_if<Weight>(&shard.ops[id].data)) {
      const ValueId value = shard.ops[id].results.front();
      const Type& type = shard.type(value);
      order.begin(id, layout);
      layout.add(*weight, type, names.tensor(value), onnx_code_form(weight->encoding, type));
    }
}

void write_model(const Shard& shard, const DataLayout& layout, const std::string& location,
                 const ModelTexts& texts, onnx::ModelProto& model) {
  model.set_ir_version(kOnnxIrVersion);
  model.set_producer_name("moec");
  model.set_producer_version(texts.tool_version);
  auto& opset = *model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOnnxOpset);
  model.set_doc_string(describe_file(shard, texts.family));
  // The graph must be complete before the domains and the metadata are known.
  GraphWriter writer(shard, layout, location, texts.options, *model.mutable_graph());
  writer.write();
  if (uses_microsoft_ops(model.graph())) {
    auto& contrib = *model.add_opset_import();
    contrib.set_domain(kMicrosoftDomain);
    contrib.set_version(1);
  }
  add_metadata(model, metadata_key(kShardEntry), shard.name);
  add_metadata(model, metadata_key(kFamilyEntry), texts.family);
  add_metadata(model, metadata_key(kSourcesEntry), writer.sources());
  add_metadata(model, metadata_key(kLayoutsEntry), writer.layouts());
  add_metadata(model, metadata_key(kNamesEntry), writer.value_names());
  if (texts.moe_layers)
    add_metadata(model, metadata_key(kWeightsEntry), writer.owners(*texts.moe_layers));
}

void set_checksum(const std::string& sha1, std::span<onnx::ModelProto> models) {
  for (onnx::ModelProto& model : models)
    for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
      if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
      auto& entry = *tensor.add_external_data();
      entry.set_key("checksum");
      entry.set_value(sha1);
    }
}

}  // namespace moec
