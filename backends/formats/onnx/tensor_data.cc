#include "backends/formats/onnx/tensor_data.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <bit>
#include <cstring>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

using onnx::TensorProto;
static_assert(std::endian::native == std::endian::little, "raw data is read as it lies");

tl::unexpected<Diagnostics> fail_tensor(std::string code, std::string cause,
                                        const std::string& tensor) {
  return fail(std::move(code), std::move(cause), "export the model again", {.tensor = tensor});
}

Result<Type> checked_type(DType dtype, Dims dims, const std::string& name) {
  if (dims.size() > kMaxRank)
    return fail_tensor(
        "onnx.shape", fmt::format("rank {} is above the limit of {}", dims.size(), kMaxRank), name);
  if (!checked_elements(dims))
    return fail_tensor("onnx.shape",
                       fmt::format("sizes {} are not all positive, or too large", to_string(dims)),
                       name);
  return Type{dtype, std::move(dims)};
}

template <class T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

double element(DType dtype, const char* bytes) {
  switch (dtype) {
    case DType::f32:
      return load<float>(bytes);
    case DType::f16:
      return f32_from_f16(load<uint16_t>(bytes));
    case DType::bf16:
      return f32_from_bf16(load<uint16_t>(bytes));
    case DType::i64:
      return static_cast<double>(load<int64_t>(bytes));
    case DType::i32:
      return load<int32_t>(bytes);
    case DType::boolean:
      return load<uint8_t>(bytes) != 0;
    case DType::u8:
    case DType::f8_e4m3:  // no ONNX type is read as one
      return load<uint8_t>(bytes);
  }
  return 0;
}

std::vector<double> raw_values(const std::string& raw, DType dtype) {
  const auto size = static_cast<size_t>(dtype_bytes(dtype));
  std::vector<double> values;
  values.reserve(raw.size() / size);
  for (size_t at = 0; at < raw.size(); at += size)
    values.push_back(element(dtype, raw.data() + at));
  return values;
}

// int32_data holds 16-bit floats as their bits (TensorProto in onnx.proto).
double typed_element(DType dtype, int32_t value) {
  if (dtype == DType::f16) return f32_from_f16(static_cast<uint16_t>(value));
  if (dtype == DType::bf16) return f32_from_bf16(static_cast<uint16_t>(value));
  if (dtype == DType::boolean) return value != 0;
  if (dtype == DType::u8) return static_cast<uint8_t>(value);
  return value;
}

std::vector<double> typed_values(const TensorProto& tensor, DType dtype) {
  if (dtype == DType::f32) return {tensor.float_data().begin(), tensor.float_data().end()};
  if (dtype == DType::i64) {
    std::vector<double> values;
    for (int64_t value : tensor.int64_data()) values.push_back(static_cast<double>(value));
    return values;
  }
  std::vector<double> values;
  for (int32_t value : tensor.int32_data()) values.push_back(typed_element(dtype, value));
  return values;
}

bool fits_a_double(double value) { return value >= -0x1p53 && value <= 0x1p53; }

}  // namespace

Result<DType> dtype_of(int64_t onnx_dtype, const std::string& tensor_name) {
  switch (onnx_dtype) {
    case TensorProto::FLOAT:
      return DType::f32;
    case TensorProto::FLOAT16:
      return DType::f16;
    case TensorProto::BFLOAT16:
      return DType::bf16;
    case TensorProto::INT64:
      return DType::i64;
    case TensorProto::INT32:
      return DType::i32;
    case TensorProto::UINT8:
      return DType::u8;
    case TensorProto::BOOL:
      return DType::boolean;
    default:
      return fail("onnx.dtype", fmt::format("element type {} is not read", onnx_dtype),
                  "f32, f16, bf16, i64, i32, u8 and bool are read", {.tensor = tensor_name});
  }
}

Result<Type> tensor_type(const TensorProto& tensor) {
  MOEC_ASSIGN(const DType dtype, dtype_of(tensor.data_type(), tensor.name()));
  return checked_type(dtype, {tensor.dims().begin(), tensor.dims().end()}, tensor.name());
}

Result<Type> decoded_type(const TensorProto& codes, DType dtype) {
  return checked_type(dtype, {codes.dims().begin(), codes.dims().end()}, codes.name());
}

Result<Type> value_type(const onnx::ValueInfoProto& info) {
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
    return fail("onnx.dynamic_shape", "the value has no tensor type with a shape",
                "export the model with static shapes", {.tensor = info.name()});
  const auto& tensor = info.type().tensor_type();
  MOEC_ASSIGN(const DType dtype, dtype_of(tensor.elem_type(), info.name()));
  Dims dims;
  for (const auto& dim : tensor.shape().dim()) {
    if (!dim.has_dim_value())
      return fail("onnx.dynamic_shape",
                  fmt::format("size {} of \"{}\" is not a number", dims.size(), info.name()),
                  "export the model with static shapes", {.tensor = info.name()});
    dims.push_back(dim.dim_value());
  }
  return checked_type(dtype, std::move(dims), info.name());
}

Result<std::vector<double>> inline_values(const TensorProto& tensor, const Type& type) {
  const bool whole_elements =
      tensor.raw_data().size() % static_cast<size_t>(dtype_bytes(type.dtype)) == 0;
  std::vector<double> values;
  if (!tensor.has_raw_data())
    values = typed_values(tensor, type.dtype);
  else if (whole_elements)
    values = raw_values(tensor.raw_data(), type.dtype);
  if (!whole_elements || std::ssize(values) != type.elements())
    return fail_tensor(
        "onnx.tensor_data",
        fmt::format("data of {} elements does not fill {}", values.size(), to_string(type)),
        tensor.name());
  if (type.dtype == DType::i64)
    for (double value : values)
      if (!fits_a_double(value))
        return fail_tensor("onnx.tensor_data", "an integer constant lies beyond 2^53",
                           tensor.name());
  return values;
}

Result<std::vector<int64_t>> inline_integers(const TensorProto& tensor) {
  const bool external = tensor.data_location() == TensorProto::EXTERNAL;
  if (external || tensor.data_type() != TensorProto::INT64 || tensor.dims_size() > 1)
    return fail_tensor("onnx.constant_input", "sizes and axes must be inline i64 vectors",
                       tensor.name());
  std::vector<int64_t> values(tensor.int64_data().begin(), tensor.int64_data().end());
  const std::string& raw = tensor.raw_data();
  if (tensor.has_raw_data() && raw.size() % sizeof(int64_t) == 0)
    for (size_t at = 0; at < raw.size(); at += sizeof(int64_t))
      values.push_back(load<int64_t>(raw.data() + at));
  const int64_t stated = tensor.dims_size() == 0 ? 1 : tensor.dims(0);
  if (raw.size() % sizeof(int64_t) != 0 || std::ssize(values) != stated)
    return fail_tensor(
        "onnx.constant_input",
        fmt::format("{} integers are given where {} are stated", values.size(), stated),
        tensor.name());
  return values;
}

}  // namespace moec
