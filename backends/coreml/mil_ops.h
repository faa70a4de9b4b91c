// How the IR's ops, element types and literal values are said in MIL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/ops.h"

namespace moec::mlmodel {
class TensorType;
class Value;
}  // namespace moec::mlmodel

namespace moec {

// The type of MIL op: "real_div". Empty for an op without a MIL form.
std::string_view mil_op_type(const OpData& data);

// MIL's DataType and the name that `cast` takes; nothing for an element type that shards for Core
// ML do not have.
std::optional<int> mil_dtype(DType dtype);
std::string_view mil_dtype_name(DType dtype);

// A size below 0 is unknown.
void fill_tensor_type(DType dtype, const Dims& dims, mlmodel::TensorType& tensor);

// The elements as bytes, rounded to f16 or f32. `values` holds one for each element, or one for
// all.
std::string float_bytes(const Type& type, const std::vector<double>& values);

// Values that stand in the program itself, with their type.
void fill_immediate(const Type& type, const std::vector<double>& values, mlmodel::Value& value);
void fill_string(const std::string& text, mlmodel::Value& value);

}  // namespace moec
