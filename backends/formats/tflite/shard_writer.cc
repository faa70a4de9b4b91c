#include "backends/formats/tflite/shard_writer.h"

#include <algorithm>

#include "backends/formats/tflite/fused_forms.h"
#include "backends/formats/tflite/tflite_codes.h"
#include "backends/formats/tflite/tflite_types.h"

namespace moec {
namespace {

Dims turned(const Dims& dims) { return {dims.at(0), dims.at(3), dims.at(2), dims.at(1)}; }

}  // namespace

void ShardWriter::write_ops(const Replaced& replaced) {
  const IdMap<OpId, uint8_t> needed = needed_ops(shard_);
  for (const OpId id : op_ids(shard_)) {
    const Op& op = shard_.ops[id];
    if (!needed[id] || is_source(op.data)) continue;
    if (const auto found = replaced.find(id); found != replaced.end())
      tensors_of_[op.results[0]] = found->second();
    else
      write_op(op);
  }
}

// ---- Tensors -----------------------------------------------------------------------------------

int32_t ShardWriter::tensor_of(ValueId value) {
  int32_t& tensor = tensors_of_[value];
  if (tensor != kNoTensor) return tensor;
  const Type& type = shard_.type(value);
  if (const auto* op = shard_.producer_as<Constant>(value))
    return tensor = subgraph_.add_constant(names_.of(value), *op);
  if (const auto* op = shard_.producer_as<Weight>(value)) return tensor = weight(*op, value);
  return tensor = subgraph_.add_computed(names_.of(value), type);
}

int32_t ShardWriter::weight(const Weight& op, ValueId value) {
  const Type& type = shard_.type(value);
  if (is_plain(op.encoding)) {
    const DataLayout::Entry& entry = layout_.find(op);
    return subgraph_.add_tensor({names_.of(value), *tflite_dtype(type.dtype), type.dims,
                                 subgraph_.model().file_buffer(entry.offset, entry.bytes)});
  }
  const DataLayout::Entry& codes = layout_.find(op, WeightPart::codes);
  const uint32_t buffer = subgraph_.model().file_buffer(codes.offset, codes.bytes);
  const auto& affine = std::get<AffineEncoding>(op.encoding);
  const auto code_type = affine.bits == 4 ? tflite::TensorType::INT4 : tflite::TensorType::INT8;
  if (tflite_weight_form(op.encoding, type) == TfliteWeightForm::rows)
    return subgraph_.add_tensor(
        {names_.of(value), code_type, type.dims, buffer, subgraph_.model().row_quantization(op)});
  const DataLayout::Entry& scales = layout_.find(op, WeightPart::scales);
  const int32_t scale_tensor = subgraph_.add_tensor(
      {names_.of(value) + "/scales", tflite::TensorType::FLOAT16, block_counts(affine, type),
       subgraph_.model().file_buffer(scales.offset, scales.bytes)});
  const auto details = tflite::CreateBlockwiseQuantization(
      builder(), scale_tensor, kNoTensor, static_cast<int32_t>(affine.block.at(1)));
  const auto quantization = tflite::CreateQuantizationParameters(
      builder(), 0, 0, 0, 0, tflite::QuantizationDetails::BlockwiseQuantization, details.Union());
  return subgraph_.add_tensor({names_.of(value), code_type, type.dims, buffer, quantization});
}

// The bias of a convolution that has none.
int32_t ShardWriter::zeros(ValueId conv) {
  const Type& type = shard_.type(conv);
  const Constant zero{{type.dtype, {type.dims.at(1)}}, {0}};
  return subgraph_.add_constant(names_.of(conv) + "/no_bias", zero);
}

int32_t ShardWriter::output_tensor(const Output& output) {
  const int32_t tensor = tensor_of(output.value);
  const auto& copies = names_.copies();
  if (std::find(copies.begin(), copies.end(), output) == copies.end()) return tensor;
  const Type& type = shard_.type(output.value);
  TfliteNode node{.inputs = {tensor}};
  fill_broadcast(type.dims, subgraph_.parts(), node);
  const int32_t copy = subgraph_.add_computed(output.name, type);
  subgraph_.add_operator(node, {copy});
  return copy;
}

// ---- Ops ---------------------------------------------------------------------------------------

void ShardWriter::write_op(const Op& op) {
  if (const auto* conv = std::get_if<Conv>(&op.data)) return write_conv(op, *conv);
  if (const auto* topk = std::get_if<TopK>(&op.data)) return write_topk(op, *topk);
  TfliteNode node;
  if (const ValueId x = gelu_operand(shard_, op); x.valid()) {
    node.inputs = {tensor_of(x)};
    fill_gelu(builder(), node);
  } else if (const ValueId weight = fully_connected_weight(shard_, op); weight.valid()) {
    node.inputs = {tensor_of(op.operands[0]), tensor_of(weight), kNoTensor};
    fill_fully_connected(shard_.type(op.operands[0]), builder(), node);
  } else {
    for (const ValueId operand : op.operands) node.inputs.push_back(tensor_of(operand));
    fill_node(op, shard_, subgraph_.parts(), node);
  }
  subgraph_.add_operator(node, {tensor_of(op.results[0])});
}

// The value with its channels last. All convolutions of a value share one transpose.
int32_t ShardWriter::channels_last(ValueId value) {
  const auto [found, is_new] = channels_last_.try_emplace(value, 0);
  if (!is_new) return found->second;
  const Dims& dims = shard_.type(value).dims;
  TfliteNode node{.inputs = {tensor_of(value)}};
  fill_transpose(kChannelsLast, subgraph_.parts(), node);
  found->second = subgraph_.add_computed(names_.of(value) + "/channels_last",
                                         {shard_.type(value).dtype, turned(dims)});
  subgraph_.add_operator(node, {found->second});
  return found->second;
}

void ShardWriter::write_conv(const Op& op, const Conv& conv) {
  const ValueId filter = op.operands[1], result = op.results[0];
  // With one input channel per group, both orders of the axes are equal, and the filter stays a
  // constant, as XNNPACK requires.
  const bool same_order = shard_.type(filter).dims.at(1) == 1;
  TfliteNode node{.inputs = {channels_last(op.operands[0]),
                             same_order ? tensor_of(filter) : channels_last(filter)}};
  // LiteRT refuses a CONV_2D without bias ("has_bias was not true", ai-edge-litert 2.3.0).
  node.inputs.push_back(op.operands.size() > 2 ? tensor_of(op.operands[2]) : zeros(result));
  fill_conv(conv.groups, builder(), node);
  const int32_t last =
      subgraph_.add_computed(names_.of(result) + "/channels_last",
                             {shard_.type(result).dtype, turned(shard_.type(result).dims)});
  subgraph_.add_operator(node, {last});
  TfliteNode back{.inputs = {last}};
  fill_transpose(kChannelsLast, subgraph_.parts(), back);
  subgraph_.add_operator(back, {tensor_of(result)});
}

void ShardWriter::write_topk(const Op& op, const TopK& topk) {
  TfliteNode node{.inputs = {tensor_of(op.operands[0])}};
  fill_topk(topk.k, subgraph_.parts(), node);
  const ValueId indices = op.results[1];
  // TFLite's indices are i32, those of the IR i64.
  const int32_t narrow = subgraph_.add_tensor(
      {names_.of(indices) + "/i32", tflite::TensorType::INT32, shard_.type(indices).dims});
  subgraph_.add_operator(node, {tensor_of(op.results[0]), narrow});
  TfliteNode cast{.inputs = {narrow}};
  fill_cast(DType::i32, DType::i64, builder(), cast);
  subgraph_.add_operator(cast, {tensor_of(indices)});
}

}  // namespace moec
