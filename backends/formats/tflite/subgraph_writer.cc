#include "backends/formats/tflite/subgraph_writer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/emit/element_bytes.h"
#include "backends/emit/graph_metadata.h"
#include "backends/emit/metadata_keys.h"
#include "backends/formats/tflite/fused_forms.h"
#include "backends/formats/tflite/node_writer.h"
#include "backends/formats/tflite/path_names.h"
#include "backends/formats/tflite/tflite_types.h"

namespace moec {
namespace {

constexpr int32_t kNoTensor = -1;

Dims turned(const Dims& dims) { return {dims.at(0), dims.at(3), dims.at(2), dims.at(1)}; }

class SubgraphWriter {
 public:
  SubgraphWriter(const Shard& shard, const DataLayout& layout, ModelWriter& model)
      : shard_(shard),
        layout_(layout),
        model_(model),
        builder_(model.builder()),
        names_(shard),
        context_{builder_,
                 [this](const auto& values, const Dims& dims) { return integers(values, dims); },
                 [this](DType dtype) { return one(dtype); }},
        tensors_of_(shard.values.size(), kNoTensor) {}

  flatbuffers::Offset<tflite::SubGraph> write(Signature& signature) {
    for (const ValueId input : shard_.inputs) {
      const int32_t tensor = tensor_of(input);
      signature.inputs.push_back({shard_.values[input].name, static_cast<uint32_t>(tensor)});
      inputs_.push_back(tensor);
    }
    const IdMap<OpId, uint8_t> needed = needed_ops(shard_);
    for (const OpId id : op_ids(shard_))
      if (needed[id] && !is_source(shard_.ops[id].data)) write_op(shard_.ops[id]);
    for (const Output& output : shard_.outputs) {
      const int32_t tensor = output_tensor(output);
      signature.outputs.push_back({output.name, static_cast<uint32_t>(tensor)});
      outputs_.push_back(tensor);
    }
    const auto tensors = builder_.CreateVector(tensors_);
    const auto inputs = builder_.CreateVector(inputs_), outputs = builder_.CreateVector(outputs_);
    const auto operators = builder_.CreateVector(operators_);
    return tflite::CreateSubGraph(builder_, tensors, inputs, outputs, operators,
                                  builder_.CreateString(signature.key));
  }

  TensorName tensor_name() const {
    return [this](ValueId value) { return names_.of(value); };
  }

 private:
  struct NewTensor {
    std::string name;
    tflite::TensorType type{};
    Dims dims;
    uint32_t buffer = 0;  // 0: computed
    flatbuffers::Offset<tflite::QuantizationParameters> quantization = 0;
  };
  int32_t add_tensor(const NewTensor& tensor);
  int32_t add_like(ValueId value, const Dims& dims, const std::string& suffix);
  int32_t tensor_of(ValueId value);
  int32_t weight(const Weight& op, ValueId value);
  int32_t add_constant(const std::string& name, const Constant& op);
  int32_t integers(const std::vector<int64_t>& values, const Dims& dims);
  int32_t one(DType dtype);
  int32_t zeros(ValueId conv);
  int32_t output_tensor(const Output& output);

  void write_op(const Op& op);
  void write_conv(const Op& op, const Conv& conv);
  void write_topk(const Op& op, const TopK& topk);
  int32_t channels_last(ValueId value);
  void add_operator(const TfliteNode& node, const std::vector<int32_t>& outputs);

  const Shard& shard_;
  const DataLayout& layout_;
  ModelWriter& model_;
  flatbuffers::FlatBufferBuilder& builder_;
  const PathNames names_;
  const NodeParts context_;
  IdMap<ValueId, int32_t> tensors_of_;
  std::vector<flatbuffers::Offset<tflite::Tensor>> tensors_;
  std::vector<flatbuffers::Offset<tflite::Operator>> operators_;
  std::vector<int32_t> inputs_, outputs_;
  std::map<std::pair<std::vector<int64_t>, Dims>, int32_t> integers_;
  std::map<DType, int32_t> ones_;
  std::map<ValueId, int32_t> channels_last_;
};

// ---- Tensors -----------------------------------------------------------------------------------

int32_t SubgraphWriter::add_tensor(const NewTensor& tensor) {
  const auto shape =
      builder_.CreateVector(std::vector<int32_t>(tensor.dims.begin(), tensor.dims.end()));
  const auto name = builder_.CreateString(tensor.name);
  // has_rank distinguishes a scalar from a tensor of unknown rank.
  tensors_.push_back(tflite::CreateTensor(builder_, shape, tensor.type, tensor.buffer, name,
                                          tensor.quantization, /*is_variable=*/false, 0, 0,
                                          /*has_rank=*/true));
  return static_cast<int32_t>(tensors_.size()) - 1;
}

// A computed tensor with the value's element type.
int32_t SubgraphWriter::add_like(ValueId value, const Dims& dims, const std::string& suffix) {
  return add_tensor({names_.of(value) + suffix, *tflite_dtype(shard_.type(value).dtype), dims});
}

// The tensor of a value, which is added on the first use.
int32_t SubgraphWriter::tensor_of(ValueId value) {
  int32_t& tensor = tensors_of_[value];
  if (tensor != kNoTensor) return tensor;
  const Type& type = shard_.type(value);
  if (const auto* op = shard_.producer_as<Constant>(value))
    return tensor = add_constant(names_.of(value), *op);
  if (const auto* op = shard_.producer_as<Weight>(value)) return tensor = weight(*op, value);
  return tensor = add_like(value, type.dims, "");
}

int32_t SubgraphWriter::weight(const Weight& op, ValueId value) {
  const Type& type = shard_.type(value);
  if (is_plain(op.encoding)) {
    const DataLayout::Entry& entry = layout_.find(op);
    return add_tensor({names_.of(value), *tflite_dtype(type.dtype), type.dims,
                       model_.file_buffer(entry.offset, entry.bytes)});
  }
  const auto& affine = std::get<AffineEncoding>(op.encoding);
  const DataLayout::Entry &codes = layout_.find(op, WeightPart::codes),
                          &scales = layout_.find(op, WeightPart::scales);
  const int32_t scale_tensor =
      add_tensor({names_.of(value) + "/scales", tflite::TensorType::FLOAT16,
                  block_counts(affine, type), model_.file_buffer(scales.offset, scales.bytes)});
  const auto details = tflite::CreateBlockwiseQuantization(
      builder_, scale_tensor, kNoTensor, static_cast<int32_t>(affine.block.at(1)));
  const auto quantization = tflite::CreateQuantizationParameters(
      builder_, 0, 0, 0, 0, tflite::QuantizationDetails::BlockwiseQuantization, details.Union());
  return add_tensor({names_.of(value), tflite::TensorType::INT4, type.dims,
                     model_.file_buffer(codes.offset, codes.bytes), quantization});
}

// Also a splat is stored with all elements: a BROADCAST_TO would end a partition of XNNPACK, and
// equal constants share a buffer.
int32_t SubgraphWriter::add_constant(const std::string& name, const Constant& op) {
  const std::string element = element_bytes(op.type.dtype, op.values);
  std::string bytes = element;
  if (op.values.size() == 1)
    for (int64_t i = 1; i < op.type.elements(); ++i) bytes += element;
  return add_tensor(
      {name, *tflite_dtype(op.type.dtype), op.type.dims, model_.inline_buffer(bytes)});
}

int32_t SubgraphWriter::integers(const std::vector<int64_t>& values, const Dims& dims) {
  // A shard has thousands of sizes and axes but few distinct values.
  const auto [found, is_new] = integers_.try_emplace({values, dims}, 0);
  if (!is_new) return found->second;
  const std::vector<double> numbers(values.begin(), values.end());
  const uint32_t buffer = model_.inline_buffer(element_bytes(DType::i32, numbers));
  const std::string name = "i32" + to_string(Dims(values));
  return found->second = add_tensor({name, tflite::TensorType::INT32, dims, buffer});
}

int32_t SubgraphWriter::one(DType dtype) {
  const auto [found, is_new] = ones_.try_emplace(dtype, 0);
  if (is_new)
    found->second = add_tensor(
        {"one", *tflite_dtype(dtype), {1}, model_.inline_buffer(element_bytes(dtype, {1}))});
  return found->second;
}

// The bias of a convolution that has none.
int32_t SubgraphWriter::zeros(ValueId conv) {
  const Type& type = shard_.type(conv);
  const Constant zero{{type.dtype, {type.dims.at(1)}}, {0}};
  return add_constant(names_.of(conv) + "/no_bias", zero);
}

int32_t SubgraphWriter::output_tensor(const Output& output) {
  const int32_t tensor = tensor_of(output.value);
  const auto& copies = names_.copies();
  if (std::find(copies.begin(), copies.end(), output) == copies.end()) return tensor;
  const Type& type = shard_.type(output.value);
  TfliteNode node{.inputs = {tensor}};
  fill_broadcast(type.dims, context_, node);
  const int32_t copy = add_tensor({output.name, *tflite_dtype(type.dtype), type.dims});
  add_operator(node, {copy});
  return copy;
}

// ---- Ops ---------------------------------------------------------------------------------------

void SubgraphWriter::add_operator(const TfliteNode& node, const std::vector<int32_t>& outputs) {
  const auto ins = builder_.CreateVector(node.inputs), outs = builder_.CreateVector(outputs);
  operators_.push_back(tflite::CreateOperator(
      builder_, model_.operator_code(node.code, node.version), ins, outs, node.type, node.options));
}

void SubgraphWriter::write_op(const Op& op) {
  if (const auto* conv = std::get_if<Conv>(&op.data)) return write_conv(op, *conv);
  if (const auto* topk = std::get_if<TopK>(&op.data)) return write_topk(op, *topk);
  TfliteNode node;
  if (const ValueId x = gelu_operand(shard_, op); x.valid()) {
    node.inputs = {tensor_of(x)};
    fill_gelu(builder_, node);
  } else if (const ValueId weight = fully_connected_weight(shard_, op); weight.valid()) {
    node.inputs = {tensor_of(op.operands[0]), tensor_of(weight), kNoTensor};
    fill_fully_connected(shard_.type(op.operands[0]), builder_, node);
  } else {
    for (const ValueId operand : op.operands) node.inputs.push_back(tensor_of(operand));
    fill_node(op, shard_, context_, node);
  }
  add_operator(node, {tensor_of(op.results[0])});
}

// The value with its channels last. All convolutions of a value share one transpose.
int32_t SubgraphWriter::channels_last(ValueId value) {
  const auto [found, is_new] = channels_last_.try_emplace(value, 0);
  if (!is_new) return found->second;
  const Dims& dims = shard_.type(value).dims;
  TfliteNode node{.inputs = {tensor_of(value)}};
  fill_transpose(kChannelsLast, context_, node);
  found->second = add_like(value, turned(dims), "/channels_last");
  add_operator(node, {found->second});
  return found->second;
}

void SubgraphWriter::write_conv(const Op& op, const Conv& conv) {
  const ValueId filter = op.operands[1], result = op.results[0];
  // With one input channel per group, both orders of the axes are equal, and the filter stays a
  // constant, as XNNPACK requires.
  const bool same_order = shard_.type(filter).dims.at(1) == 1;
  TfliteNode node{.inputs = {channels_last(op.operands[0]),
                             same_order ? tensor_of(filter) : channels_last(filter)}};
  // LiteRT refuses a CONV_2D without bias ("has_bias was not true", ai-edge-litert 2.3.0).
  node.inputs.push_back(op.operands.size() > 2 ? tensor_of(op.operands[2]) : zeros(result));
  fill_conv(conv.groups, builder_, node);
  const int32_t last = add_like(result, turned(shard_.type(result).dims), "/channels_last");
  add_operator(node, {last});
  TfliteNode back{.inputs = {last}};
  fill_transpose(kChannelsLast, context_, back);
  add_operator(back, {tensor_of(result)});
}

void SubgraphWriter::write_topk(const Op& op, const TopK& topk) {
  TfliteNode node{.inputs = {tensor_of(op.operands[0])}};
  fill_topk(topk.k, context_, node);
  const ValueId indices = op.results[1];
  // TFLite's indices are i32, those of the IR i64.
  const int32_t narrow = add_tensor(
      {names_.of(indices) + "/i32", tflite::TensorType::INT32, shard_.type(indices).dims});
  add_operator(node, {tensor_of(op.results[0]), narrow});
  TfliteNode cast{.inputs = {narrow}};
  fill_cast(DType::i32, DType::i64, builder_, cast);
  add_operator(cast, {tensor_of(indices)});
}

}  // namespace

void add_shard(const Shard& shard, const DataLayout& layout, const std::string& function,
               const std::optional<MoeLayers>& moe_layers, ModelWriter& model) {
  SubgraphWriter writer(shard, layout, model);
  Signature signature{.key = function, .inputs = {}, .outputs = {}};
  const auto subgraph = writer.write(signature);
  model.add_subgraph(subgraph, signature);
  const TensorName name = writer.tensor_name();
  // Readers may name the unnamed result of an op by its path: the name of its tensor stays the
  // same.
  const auto label = [&](ValueId value) {
    const bool free = shard.values[value].name.empty() && !is_source(shard, value);
    return free ? shard.label(value) : label_of_tensor(shard.name, name(value));
  };
  model.add_metadata(metadata_key(kShardEntry, function), shard.name);
  model.add_metadata(metadata_key(kLayoutsEntry, function), layout_lines(shard, name));
  model.add_metadata(metadata_key(kNamesEntry, function), label_lines(shard, name, label));
  if (moe_layers)
    model.add_metadata(metadata_key(kWeightsEntry, function),
                       to_text(owners_of(shard, *moe_layers, name)));
}

}  // namespace moec
