// Reads quantized weights of TFLite files (tflite_codes.h) as views that decode their parts.
#pragma once

#include "backends/formats/tflite/tensor_reader.h"
#include "ir/graph/weight_view.h"

namespace moec {

// True if the tensor contains codes.
bool is_coded(const TensorReader& tensors, int32_t tensor);

// Adds the ranges of the codes and scales to the table, and returns the view of the f32 values.
// Errors: tflite.quantized for other forms of quantization, tflite.buffer, tflite.undefined,
// tflite.duplicate_name.
Result<WeightView> read_coded(const TensorReader& tensors, int32_t tensor, WeightTable& table);

}  // namespace moec
