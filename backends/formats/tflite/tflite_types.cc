#include "backends/formats/tflite/tflite_types.h"

namespace moec {

using tflite::TensorType;

std::optional<TensorType> tflite_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return TensorType::FLOAT32;
    case DType::f16:
      return TensorType::FLOAT16;
    case DType::bf16:
      return TensorType::BFLOAT16;
    case DType::i64:
      return TensorType::INT64;
    case DType::i32:
      return TensorType::INT32;
    case DType::u8:
      return TensorType::UINT8;
    case DType::boolean:
      return TensorType::BOOL;
    case DType::f8_e4m3:
      return std::nullopt;
  }
  return std::nullopt;
}

// The type comes from a file, so it may be none of the enumerators.
std::optional<DType> dtype_of(TensorType type) {
  for (int i = 0; i < static_cast<int>(enum_count<DType>); ++i)
    if (tflite_dtype(static_cast<DType>(i)) == type) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace moec
