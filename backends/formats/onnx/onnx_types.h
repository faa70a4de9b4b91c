// Maps IR types to ONNX types. libonnx 1.12 has no 8-bit floats.
#pragma once

#include <optional>

#include "ir/graph/type.h"

namespace onnx {
class ValueInfoProto;
}

namespace moec {

// TensorProto.DataType of an element type; nullopt for f8_e4m3.
std::optional<int> onnx_dtype(DType dtype);

// Fills in name and static type. onnx_dtype() must support the element type.
void fill_value_info(const std::string& name, const Type& type, onnx::ValueInfoProto& info);

}  // namespace moec
