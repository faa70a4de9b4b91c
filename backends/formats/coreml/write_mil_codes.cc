#include "backends/formats/coreml/write_mil_codes.h"

#include <mlmodel.pb.h>

#include "backends/formats/coreml/mil_ops.h"
#include "ir/base/invariant.h"

namespace moec {
namespace {

constexpr std::string_view kConst = "const";

// The only axis that the block does not cover fully, if the block's size along that axis is 1.
// constexpr_affine_dequantize has scales along one axis only.
std::optional<int64_t> channel_axis(const Dims& block, const Type& type) {
  std::optional<int64_t> found;
  for (int64_t axis = 0; axis < type.rank(); ++axis) {
    if (block.at(axis) == type.dims.at(axis)) continue;
    if (found || block.at(axis) != 1) return std::nullopt;
    found = axis;
  }
  return found;
}

// constexpr_blockwise_shift_scale derives the block size from the number of scales, so a last block
// cannot be shorter.
bool divides(const Dims& block, const Type& type) {
  for (int64_t axis = 0; axis < type.rank(); ++axis)
    if (type.dims.at(axis) % block.at(axis) != 0) return false;
  return true;
}

// The numbers of element types in programs differ from those in blobs.
int mil_dtype(BlobDType dtype) {
  switch (dtype) {
    case BlobDType::f16:
      return mlmodel::FLOAT16;
    case BlobDType::f32:
      return mlmodel::FLOAT32;
    case BlobDType::u8:
      return mlmodel::UINT8;
    case BlobDType::i8:
      return mlmodel::INT8;
    case BlobDType::i4:
      return mlmodel::INT4;
    case BlobDType::u1:
      return mlmodel::UINT1;
    case BlobDType::u2:
      return mlmodel::UINT2;
    case BlobDType::u4:
      return mlmodel::UINT4;
    case BlobDType::u3:
      return mlmodel::UINT3;
    case BlobDType::u6:
      return mlmodel::UINT6;
  }
  return mlmodel::UNUSED_TYPE;
}

// Writes the values of the ops: as attributes for constexpr_affine_dequantize, as inputs for the
// other ops.
class ArgumentWriter {
 public:
  ArgumentWriter(const Weight& weight, const Type& type, const DataLayout& layout,
                 mlmodel::Operation& mil)
      : weight_(weight), type_(type), layout_(layout), mil_(mil) {}

  void attribute(const char* name, WeightPart part, const Dims& dims) {
    fill(part, dims, (*mil_.mutable_attributes())[name]);
  }
  void input(const char* name, WeightPart part, const Dims& dims) {
    fill(part, dims, *(*mil_.mutable_inputs())[name].add_arguments()->mutable_value());
  }

  // Adds the attributes of constexpr_affine_dequantize.
  void affine(const AffineEncoding& affine, int64_t axis) {
    const Dims channels{type_.dims.at(axis)};
    attribute("quantized_data", WeightPart::codes, type_.dims);
    attribute("scale", WeightPart::scales, channels);
    if (affine.zero_point)
      attribute("zero_point", WeightPart::zeros, channels);
    else
      fill_zero((*mil_.mutable_attributes())["zero_point"]);
    fill_immediate({DType::i32, {}}, {static_cast<double>(axis)},
                   (*mil_.mutable_attributes())["axis"]);
  }

 private:
  void fill(WeightPart part, const Dims& dims, mlmodel::Value& value) const {
    const auto& entry = layout_.find(weight_, part);
    fill_blob_value(mil_dtype(blob_shape(entry).dtype), dims, entry, value);
  }

  // Fills in an int8 scalar 0.
  static void fill_zero(mlmodel::Value& value) {
    mlmodel::TensorType& type = *value.mutable_type()->mutable_tensortype();
    type.set_datatype(mlmodel::INT8);
    value.mutable_immediatevalue()->mutable_tensor()->mutable_bytes()->set_values(
        std::string(1, '\0'));
  }

  const Weight& weight_;
  const Type& type_;
  const DataLayout& layout_;
  mlmodel::Operation& mil_;
};

}  // namespace

std::string_view mil_weight_op(const Encoding& encoding, const Type& type) {
  if (is_plain(encoding)) return kConst;
  if (type.dtype != DType::f16 && type.dtype != DType::f32) return {};
  if (std::holds_alternative<PaletteEncoding>(encoding)) return kLutToDense;
  const auto& affine = std::get<AffineEncoding>(encoding);
  if (affine.copied && affine.zero_point) return {};  // offsets are integers
  // Preferred over constexpr_blockwise_shift_scale, which needs specification version 9.
  if (affine.bits == 8 && channel_axis(affine.block, type)) return kAffineDequantize;
  return divides(affine.block, type) ? kBlockwiseShiftScale : std::string_view();
}

int mil_weight_version(const Encoding& encoding, const Type& type) {
  const std::string_view op = mil_weight_op(encoding, type);
  if (op == kConst) return 0;
  return op == kAffineDequantize ? 7 : 9;
}

void fill_encoded_weight(const Weight& weight, const Type& type, const DataLayout& layout,
                         mlmodel::Operation& mil) {
  const std::string_view op = mil_weight_op(weight.encoding, type);
  mil.set_type(std::string(op));
  ArgumentWriter arguments(weight, type, layout, mil);
  Dims blocks = block_counts(weight.encoding, type);
  if (const auto* palette = std::get_if<PaletteEncoding>(&weight.encoding)) {
    blocks.insert(blocks.end(), {int64_t{1} << palette->bits, 1});  // 2^bits entries of one value
    arguments.input("indices", WeightPart::codes, type.dims);
    arguments.input("lut", WeightPart::table, blocks);
    return;
  }
  const auto& affine = std::get<AffineEncoding>(weight.encoding);
  if (op == kAffineDequantize) return arguments.affine(affine, *channel_axis(affine.block, type));
  arguments.input("data", WeightPart::codes, type.dims);
  arguments.input("scale", WeightPart::scales, blocks);
  if (affine.zero_point) arguments.input("offset", WeightPart::zeros, blocks);
}

void fill_blob_value(int dtype, const Dims& dims, const DataLayout::Entry& entry,
                     mlmodel::Value& value) {
  mlmodel::TensorType& type = *value.mutable_type()->mutable_tensortype();
  type.set_datatype(static_cast<mlmodel::DataType>(dtype));
  type.set_rank(std::ssize(dims));
  for (int64_t size : dims)
    type.add_dimensions()->mutable_constant()->set_size(static_cast<uint64_t>(size));
  value.mutable_blobfilevalue()->set_filename("@model_path/weights/weight.bin");
  // A program refers to the blob's record, which precedes the data.
  value.mutable_blobfilevalue()->set_offset(entry.offset - kBlobFormat.entry_lead);
}

}  // namespace moec
