// Element types of TFLite.
#pragma once

#include <tflite_generated.h>

#include <optional>

#include "ir/graph/type.h"

namespace moec {

// Returns nullopt if TFLite has no such type.
std::optional<tflite::TensorType> tflite_dtype(DType dtype);
// Returns nullopt if the IR has no such type: INT8 and INT4 occur only as codes.
std::optional<DType> dtype_of(tflite::TensorType type);

}  // namespace moec
