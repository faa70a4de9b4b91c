#include "backends/onnx/weight_tensors.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "backends/onnx/initializers.h"

namespace moec {

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
  if (*onnx_weight_form(affine, type) == OnnxWeightForm::nbits) {
    const int64_t block = affine.block.at(1);
    const Dims packed{type.dims.at(0), block_counts(affine, type).at(1), block * affine.bits / 8};
    return fill_external({DType::u8, packed}, location_, entry.offset, entry.bytes, tensor);
  }
  tensor.set_name(names_.fresh(names_.tensor(value) + ".codes"));
  codes_[value] = tensor.name();
  fill_external({DType::u8, type.dims}, location_, entry.offset, entry.bytes, tensor);
  tensor.set_data_type(onnx::TensorProto::INT8);
}

void WeightTensors::fill_dequantize(ValueId weight, onnx::NodeProto& node) {
  moec::fill_dequantize(std::get<AffineEncoding>(encoding(weight)), shard_.type(weight), node);
  node.add_input(codes_.at(weight));
  add_parameters(weight, onnx::TensorProto::INT8, node);
}

void WeightTensors::fill_nbits(ValueId weight, int accuracy_level, onnx::NodeProto& node) {
  moec::fill_nbits(std::get<AffineEncoding>(encoding(weight)), shard_.type(weight), accuracy_level,
                   node);
  node.add_input(names_.tensor(weight));
  add_parameters(weight, onnx::TensorProto::UINT8, node);
}

void WeightTensors::add_parameters(ValueId weight, int zeros_type, onnx::NodeProto& node) {
  for (const StoredPart& part : stored_parts(encoding(weight), shard_.type(weight))) {
    if (part.part == WeightPart::codes) continue;
    std::string& name = parameters_[{weight, part.part}];
    if (name.empty()) {
      name = names_.fresh(fmt::format("{}.{}", names_.tensor(weight), enum_name(part.part)));
      const auto& entry = layout_.find(*shard_.producer_as<Weight>(weight), part.part);
      onnx::TensorProto& tensor = *graph_.add_initializer();
      tensor.set_name(name);
      const int64_t count = static_cast<int64_t>(entry.bytes) / dtype_bytes(part.type.dtype);
      const Dims dims = count == 1 && zeros_type == onnx::TensorProto::INT8 ? Dims{} : Dims{count};
      fill_external({part.type.dtype, dims}, location_, entry.offset, entry.bytes, tensor);
      if (part.part == WeightPart::zeros) tensor.set_data_type(zeros_type);
    }
    node.add_input(name);
  }
}

}  // namespace moec
