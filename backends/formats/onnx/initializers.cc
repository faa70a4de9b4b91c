#include "backends/formats/onnx/initializers.h"

#include <onnx/onnx_pb.h>

#include "backends/emit/element_bytes.h"
#include "backends/formats/onnx/onnx_types.h"

namespace moec {
namespace {

void fill_type(const Type& type, onnx::TensorProto& tensor) {
  tensor.set_data_type(*onnx_dtype(type.dtype));
  for (int64_t size : type.dims) tensor.add_dims(size);
}

// ONNX stores entries of external data as texts, with decimal numbers.
void add_entry(std::string key, std::string value, onnx::TensorProto& tensor) {
  auto& entry = *tensor.add_external_data();
  entry.set_key(std::move(key));
  entry.set_value(std::move(value));
}

}  // namespace

void fill_inline(const Type& type, const std::vector<double>& values, onnx::TensorProto& tensor) {
  fill_type(type, tensor);
  // Uses raw data, which have the same form for every element type, instead of typed fields.
  tensor.set_raw_data(element_bytes(type.dtype, values));
}

// Has no Type parameter, because `values` may be empty and a Type cannot have a size of 0.
void fill_integers(const std::vector<int64_t>& values, onnx::TensorProto& tensor) {
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(std::ssize(values));
  tensor.set_raw_data(values.data(), values.size() * sizeof(int64_t));
}

void fill_external(const Type& type, const std::string& location, uint64_t offset, uint64_t bytes,
                   onnx::TensorProto& tensor) {
  fill_type(type, tensor);
  // Without this mark, readers would look for the data in the graph.
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  add_entry("location", location, tensor);
  add_entry("offset", std::to_string(offset), tensor);
  add_entry("length", std::to_string(bytes), tensor);
}

}  // namespace moec
