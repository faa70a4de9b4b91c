// Types and inline data of ONNX tensors, checked.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace onnx {
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace moec {

// Errors: onnx.dtype, onnx.shape (a size below 1, a rank above 5, too many elements).
Result<Type> tensor_type(const onnx::TensorProto& tensor);

// Also onnx.dynamic_shape: a size that is not a number.
// The type of what codes stand for: their sizes with this element type. Error onnx.shape.
Result<Type> decoded_type(const onnx::TensorProto& codes, DType dtype);

Result<Type> value_type(const onnx::ValueInfoProto& info);

// The elements of an inline tensor of this type. Error: onnx.tensor_data.
Result<std::vector<double>> inline_values(const onnx::TensorProto& tensor, const Type& type);

// The elements of an inline i64 tensor of rank 0 or 1, which may be empty. Error:
// onnx.constant_input.
Result<std::vector<int64_t>> inline_integers(const onnx::TensorProto& tensor);

// The IR's element type for a TensorProto.DataType. Error: onnx.dtype.
Result<DType> dtype_of(int64_t onnx_dtype, const std::string& tensor_name);

}  // namespace moec
