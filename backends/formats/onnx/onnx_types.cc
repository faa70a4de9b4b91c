#include "backends/formats/onnx/onnx_types.h"

#include <onnx/onnx_pb.h>

namespace moec {

// The switch has no default, so that a new element type is a warning until it is added.
std::optional<int> onnx_dtype(DType dtype) {
  using onnx::TensorProto;
  switch (dtype) {
    case DType::f32:
      return TensorProto::FLOAT;
    case DType::f16:
      return TensorProto::FLOAT16;
    case DType::bf16:
      return TensorProto::BFLOAT16;
    case DType::i64:
      return TensorProto::INT64;
    case DType::i32:
      return TensorProto::INT32;
    case DType::u8:
      return TensorProto::UINT8;
    case DType::boolean:
      return TensorProto::BOOL;
    case DType::f8_e4m3:
      return std::nullopt;
  }
  return std::nullopt;
}

void fill_value_info(const std::string& name, const Type& type, onnx::ValueInfoProto& info) {
  info.set_name(name);
  auto& tensor = *info.mutable_type()->mutable_tensor_type();
  // check_emittable() has rejected results of ops whose type has no number.
  tensor.set_elem_type(*onnx_dtype(type.dtype));
  auto& shape = *tensor.mutable_shape();  // also for a scalar: an absent shape means unknown rank
  for (int64_t size : type.dims) shape.add_dim()->set_dim_value(size);
}

}  // namespace moec
