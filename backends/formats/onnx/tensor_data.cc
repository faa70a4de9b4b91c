#include "backends/formats/onnx/tensor_data.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include <cstring>
#include <string_view>

#include "backends/emit/element_bytes.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

using onnx::TensorProto;

tl::unexpected<Diagnostics> fail_tensor(std::string code, std::string cause,
                                        const std::string& tensor) {
  return fail(std::move(code), std::move(cause), "export the model again", {.tensor = tensor});
}

// The rank is checked first: it bounds the loop over the sizes.
Result<Type> checked_type(DType dtype, Dims dims, const std::string& name) {
  if (dims.size() > kMaxRank)
    return fail_tensor(
        "onnx.shape", fmt::format("rank {} is above the limit of {}", dims.size(), kMaxRank), name);
  if (!checked_elements(dims))
    return fail_tensor(
        "onnx.shape",
        fmt::format("shape {} has a size below 1, or too many elements", to_string(dims)), name);
  return Type{dtype, std::move(dims)};
}

// Uses memcpy(), because raw data need not be aligned.
int64_t load_integer(const char* bytes) {
  int64_t value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// int32_data holds the bit patterns of 16-bit floats (TensorProto in onnx.proto).
double typed_element(DType dtype, int32_t value) {
  if (dtype == DType::f16) return f32_from_f16(static_cast<uint16_t>(value));
  if (dtype == DType::bf16) return f32_from_bf16(static_cast<uint16_t>(value));
  if (dtype == DType::boolean) return value != 0;
  if (dtype == DType::u8) return static_cast<uint8_t>(value);
  return value;
}

// moec writes only raw data, but other tools may use these typed fields instead.
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

// Constants are held as doubles, which are exact up to 2^53. Compares the integers of an i64
// tensor, because 2^53 + 1 becomes 2^53 as a double.
bool holds_doubles(const TensorProto& tensor) {
  if (tensor.has_raw_data()) return fit_doubles(tensor.raw_data());
  const auto& data = tensor.int64_data();
  return fit_doubles(std::string_view(reinterpret_cast<const char*>(data.data()),
                                      static_cast<size_t>(data.size()) * sizeof(int64_t)));
}

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
      return fail("onnx.dtype", fmt::format("element type {} is unsupported", onnx_dtype),
                  "use f32, f16, bf16, i64, i32, u8 or bool", {.tensor = tensor_name});
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
  // A value without a shape has an unknown rank; a scalar has an empty shape.
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape())
    return fail("onnx.dynamic_shape", "the value has no tensor type with a shape",
                "export the model with static shapes", {.tensor = info.name()});
  const auto& tensor = info.type().tensor_type();
  MOEC_ASSIGN(const DType dtype, dtype_of(tensor.elem_type(), info.name()));
  Dims dims;
  for (const auto& dim : tensor.shape().dim()) {
    // A symbolic size (dim_param) is unknown until a run, but shards are static.
    if (!dim.has_dim_value())
      return fail(
          "onnx.dynamic_shape",
          fmt::format("the size of axis {} of \"{}\" is not a number", dims.size(), info.name()),
          "export the model with static shapes", {.tensor = info.name()});
    dims.push_back(dim.dim_value());
  }
  return checked_type(dtype, std::move(dims), info.name());
}

Result<std::vector<double>> inline_values(const TensorProto& tensor, const Type& type) {
  // Absent raw data have size 0, so whole_elements is true for typed fields.
  const bool whole_elements =
      tensor.raw_data().size() % static_cast<size_t>(dtype_bytes(type.dtype)) == 0;
  std::vector<double> values;
  // ONNX allows either raw data or a typed field, not both.
  if (!tensor.has_raw_data())
    values = typed_values(tensor, type.dtype);
  else if (whole_elements)
    values = element_values(type.dtype, tensor.raw_data());
  if (!whole_elements || std::ssize(values) != type.elements())
    return fail_tensor(
        "onnx.tensor_data",
        fmt::format("the data has {} elements, expected {}", values.size(), to_string(type)),
        tensor.name());
  if (type.dtype == DType::i64 && !holds_doubles(tensor))
    return fail_tensor("onnx.tensor_data", "an integer constant exceeds 2^53", tensor.name());
  return values;
}

Result<std::vector<int64_t>> inline_integers(const TensorProto& tensor) {
  const bool external = tensor.data_location() == TensorProto::EXTERNAL;
  // ONNX requires i64 for sizes and axes. A scalar stands for a single number.
  if (external || tensor.data_type() != TensorProto::INT64 || tensor.dims_size() > 1)
    return fail_tensor("onnx.constant_input", "sizes and axes must be inline i64 vectors",
                       tensor.name());
  // A tensor uses int64_data or raw_data. The number of elements is compared with the shape below.
  std::vector<int64_t> values(tensor.int64_data().begin(), tensor.int64_data().end());
  const std::string& raw = tensor.raw_data();
  if (tensor.has_raw_data() && raw.size() % sizeof(int64_t) == 0)
    for (size_t at = 0; at < raw.size(); at += sizeof(int64_t))
      values.push_back(load_integer(raw.data() + at));
  // A scalar has one element and no sizes.
  const int64_t stated = tensor.dims_size() == 0 ? 1 : tensor.dims(0);
  if (raw.size() % sizeof(int64_t) != 0 || std::ssize(values) != stated)
    return fail_tensor(
        "onnx.constant_input",
        fmt::format("the data has {} integers, but the shape states {}", values.size(), stated),
        tensor.name());
  return values;
}

}  // namespace moec
