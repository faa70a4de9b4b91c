// Reads and checks the tensors of a TFLite subgraph: types, constants, and positions of weights.
#pragma once

#include <tflite_generated.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace moec {

// A verified model, and the file that contains it.
struct TfliteFile {
  const std::byte* start = nullptr;  // of the flatbuffer
  const tflite::Model* model = nullptr;
  std::string path;
  uint64_t bytes = 0;
};

// Errors name the tensor, but not the file.
class TensorReader {
 public:
  TensorReader(const TfliteFile& file, const tflite::SubGraph& subgraph)
      : file_(file), subgraph_(subgraph) {}

  int32_t count() const;
  // Fails with tflite.undefined if the subgraph has no such tensor.
  Status check_index(int32_t tensor) const;

  // The following functions require an index that passed check_index().

  std::string name(int32_t index) const;
  // Errors: tflite.dtype, tflite.shape (a size below 1, a rank above 5, too many elements),
  // tflite.dynamic_shape, tflite.quantized.
  Result<Type> type(int32_t index) const;
  // The type of the decoded values of codes: f32 with the tensor's sizes. Errors: those of type().
  Result<Type> decoded_type(int32_t index) const;
  // The tensor's quantization; null if it has none.
  const tflite::QuantizationParameters* quantization(int32_t index) const;
  tflite::TensorType element_type(int32_t index) const;
  // True if the tensor's buffer has contents.
  bool is_constant(int32_t index) const;
  // True if the contents follow the flatbuffer, as those of weights.
  bool is_in_file(int32_t index) const;

  // The elements of a constant inside the flatbuffer. Error tflite.buffer.
  Result<std::vector<double>> values(int32_t index, const Type& type) const;
  // Sizes and axes: an i32 constant of rank 0 or 1. Error tflite.constant_input.
  Result<std::vector<int64_t>> integers(int32_t index) const;
  // The range of the file with a tensor of this type. Error tflite.buffer.
  Result<TensorRange> range(int32_t index, const Type& type) const;
  // The range of the scales per row inside the flatbuffer, f32 of these sizes. Error
  // tflite.quantized: other counts, other axes than the first, zero points other than 0.
  Result<TensorRange> row_scales(int32_t index, const Dims& counts) const;

 private:
  Result<Type> sized(DType dtype, int32_t index) const;
  const tflite::Tensor& tensor(int32_t index) const;
  const tflite::Buffer* buffer(int32_t index) const;
  std::string_view inline_bytes(int32_t index) const;
  tl::unexpected<Diagnostics> fail_tensor(std::string code, std::string cause, int32_t index) const;

  const TfliteFile& file_;
  const tflite::SubGraph& subgraph_;
};

}  // namespace moec
