#include "backends/formats/onnx/weight_tensors.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/onnx/initializers.h"
#include "backends/formats/onnx/set_attributes.h"

namespace moec {

// check_encoded() has rejected weights without a form, so the optional is set.
OnnxWeightForm WeightTensors::form_of(const Op& op) const {
  const auto* weight = std::get_if<Weight>(&op.data);
  if (!weight) return OnnxWeightForm::plain;
  return *onnx_weight_form(weight->encoding, shard_.type(op.results.front()));
}

const Encoding& WeightTensors::encoding(ValueId weight) const {
  return shard_.producer_as<Weight>(weight)->encoding;
}

void WeightTensors::add(ValueId value) {
  const Weight& weight = *shard_.producer_as<Weight>(value);
  const Type& type = shard_.type(value);
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(names_.tensor(value));
  if (is_plain(weight.encoding)) {
    const auto& entry = layout_.find(weight);
    return fill_external(type, location_, entry.offset, entry.bytes, tensor);
  }
  const auto& affine = std::get<AffineEncoding>(weight.encoding);
  const auto& entry = layout_.find(weight, WeightPart::codes);
  const OnnxWeightForm form = *onnx_weight_form(affine, type);
  if (form == OnnxWeightForm::experts) {
    Dims packed = type.dims;
    packed.back() = packed.back() * affine.bits / 8;
    return fill_external({DType::u8, packed}, location_, entry.offset, entry.bytes, tensor);
  }
  if (form == OnnxWeightForm::nbits) {
    const int64_t block = affine.block.at(1);
    // The layout of onnxruntime: [N, blocks per row, bytes per block]. A row is padded to whole
    // blocks.
    const Dims packed{type.dims.at(0), block_counts(affine, type).at(1), block * affine.bits / 8};
    return fill_external({DType::u8, packed}, location_, entry.offset, entry.bytes, tensor);
  }
  tensor.set_name(names_.fresh(names_.tensor(value) + ".codes"));
  codes_[value] = tensor.name();
  fill_external({DType::u8, type.dims}, location_, entry.offset, entry.bytes, tensor);
  // fill_external() sets u8, because the IR has no i8.
  tensor.set_data_type(onnx::TensorProto::INT8);
}

onnx::NodeProto& WeightTensors::add_cast(const std::string& input, int dtype,
                                         const std::string& name) {
  onnx::NodeProto& cast = *graph_.add_node();
  cast.set_name(name);
  cast.set_op_type("Cast");
  set_int(cast, "to", dtype);
  cast.add_input(input);
  return cast;
}

onnx::NodeProto& WeightTensors::add_dequantize(ValueId weight, const std::string& name) {
  const Type& type = shard_.type(weight);
  onnx::NodeProto node;
  fill_dequantize(std::get<AffineEncoding>(encoding(weight)), type, node);
  node.set_name(name);
  node.add_input(codes_.at(weight));
  add_parameters(weight, onnx::TensorProto::INT8, node);
  // For f32 the node itself gives the result. For f16, casts surround it (write_onnx_codes.h); the
  // last one has the op's name.
  if (type.dtype != DType::f16) return *graph_.add_node() = std::move(node);
  const std::string scales = node.input(1), wide = names_.fresh(scales + ".f32"),
                    values = names_.fresh(names_.tensor(weight) + ".f32");
  add_cast(scales, onnx::TensorProto::FLOAT, names_.fresh_node(wide)).add_output(wide);
  node.set_name(names_.fresh_node(values));
  node.set_input(1, wide);
  node.add_output(values);
  *graph_.add_node() = std::move(node);
  return add_cast(values, onnx::TensorProto::FLOAT16, name);
}

void WeightTensors::fill_nbits(ValueId weight, onnx::NodeProto& node) {
  moec::fill_nbits(std::get<AffineEncoding>(encoding(weight)), shard_.type(weight), node);
  node.add_input(names_.tensor(weight));
  add_parameters(weight, onnx::TensorProto::UINT8, node);
}

const std::string& WeightTensors::parameter(ValueId weight, const StoredPart& part,
                                            const Dims& dims, int zeros_type) {
  std::string& name = parameters_[{weight, part.part}];
  if (!name.empty()) return name;
  name = names_.fresh(fmt::format("{}.{}", names_.tensor(weight), enum_name(part.part)));
  const auto& entry = layout_.find(*shard_.producer_as<Weight>(weight), part.part);
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  fill_external({part.type.dtype, dims}, location_, entry.offset, entry.bytes, tensor);
  if (part.type.dtype == DType::u8) tensor.set_data_type(zeros_type);
  return name;
}

void WeightTensors::add_parameters(ValueId weight, int zeros_type, onnx::NodeProto& node) {
  for (const StoredPart& part : stored_parts(encoding(weight), shard_.type(weight))) {
    if (part.part == WeightPart::codes) continue;
    const auto& entry = layout_.find(*shard_.producer_as<Weight>(weight), part.part);
    const int64_t count = static_cast<int64_t>(entry.bytes) / dtype_bytes(part.type.dtype);
    // A DequantizeLinear with a single scale requires a scalar. MatMulNBits gets a vector, even of
    // one element.
    const Dims dims = count == 1 && zeros_type == onnx::TensorProto::INT8 ? Dims{} : Dims{count};
    node.add_input(parameter(weight, part, dims, zeros_type));
  }
}

std::string WeightTensors::expert_part(ValueId weight, WeightPart part) {
  const Type& type = shard_.type(weight);
  for (const StoredPart& stored : stored_parts(encoding(weight), type, CodeForm::excess)) {
    if (stored.part != part) continue;
    Dims dims{type.dims.at(0), type.dims.at(1)};
    if (expert_block_size(affine(weight), type) > 0)
      dims.push_back(stored.type.elements() / (dims.at(0) * dims.at(1)));
    return parameter(weight, stored, dims, onnx::TensorProto::UINT8);
  }
  return {};
}

}  // namespace moec
