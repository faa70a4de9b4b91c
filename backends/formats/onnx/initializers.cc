#include "backends/formats/onnx/initializers.h"

#include <onnx/onnx_pb.h>

#include <bit>

#include "backends/formats/onnx/onnx_types.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

static_assert(std::endian::native == std::endian::little, "raw data is written in memory order");

template <class T>
void append(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// check_emittable() has checked the range, so no cast to an integer type is out of range.
void append_element(DType dtype, double value, std::string& bytes) {
  switch (dtype) {
    case DType::f32:
      return append(static_cast<float>(value), bytes);
    case DType::f16:
      return append(f16_from_f32(static_cast<float>(value)), bytes);
    case DType::bf16:
      return append(bf16_from_f32(static_cast<float>(value)), bytes);
    case DType::i64:
      return append(static_cast<int64_t>(value), bytes);
    case DType::i32:
      return append(static_cast<int32_t>(value), bytes);
    case DType::u8:
      return append(static_cast<uint8_t>(value), bytes);
    case DType::boolean:
      return append(static_cast<uint8_t>(value != 0), bytes);
    case DType::f8_e4m3:
      return;  // rejected by check_emittable()
  }
}

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
  std::string bytes;
  bytes.reserve(values.size() * static_cast<size_t>(dtype_bytes(type.dtype)));
  for (double value : values) append_element(type.dtype, value, bytes);
  // Uses raw data, which have the same form for every element type, instead of typed fields.
  tensor.set_raw_data(std::move(bytes));
}

// Has no Type parameter, because `values` may be empty and a Type cannot have a size of 0.
void fill_integers(const std::vector<int64_t>& values, onnx::TensorProto& tensor) {
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(std::ssize(values));
  std::string bytes;
  for (int64_t value : values) append(value, bytes);
  tensor.set_raw_data(std::move(bytes));
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
