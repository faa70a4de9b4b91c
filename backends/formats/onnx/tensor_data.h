// Reads and checks the types and inline data of ONNX tensors.
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

// Returns the type of a tensor. Errors: onnx.dtype, onnx.shape (a size below 1, a rank above 5, too
// many elements).
Result<Type> tensor_type(const onnx::TensorProto& tensor);

// Returns the type of the decoded values: the sizes of `codes` with element type `dtype`. Error
// onnx.shape.
Result<Type> decoded_type(const onnx::TensorProto& codes, DType dtype);

// Returns the static type of a value. Errors: those of tensor_type(), and onnx.dynamic_shape for a
// size that is not a number.
Result<Type> value_type(const onnx::ValueInfoProto& info);

// Returns the elements of an inline tensor of type `type`. Error: onnx.tensor_data.
Result<std::vector<double>> inline_values(const onnx::TensorProto& tensor, const Type& type);

// Returns the elements of an inline i64 tensor of rank 0 or 1, which may be empty. Error:
// onnx.constant_input.
Result<std::vector<int64_t>> inline_integers(const onnx::TensorProto& tensor);

// Returns the IR's element type for a TensorProto.DataType. Error: onnx.dtype.
Result<DType> dtype_of(int64_t onnx_dtype, const std::string& tensor_name);

}  // namespace moec
