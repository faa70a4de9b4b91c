#include "backends/formats/coreml/mil_ops.h"

#include <mlmodel.pb.h>

#include <bit>

#include "ir/base/at.h"
#include "ir/graph/scalar.h"

namespace moec {
namespace {

static_assert(std::endian::native == std::endian::little, "floats are written in memory order");

// MIL has no negation: `neg` becomes a product with −1, and the metadata mark it for readers. MIL's
// `inverse` is the reciprocal.
constexpr auto kUnaryTypes =
    name_table<UnaryFn>({"mul", "abs", "exp", "log", "sqrt", "inverse", "sigmoid", "tanh", "erf"});
constexpr auto kBinaryTypes =
    name_table<BinaryFn>({"add", "sub", "mul", "real_div", "maximum", "minimum"});
constexpr auto kCompareTypes = name_table<CompareFn>({"greater", "less", "equal"});
constexpr auto kReduceTypes = name_table<ReduceFn>({"reduce_sum", "reduce_mean", "reduce_max"});

struct OpType {
  std::string_view operator()(const Weight&) const { return "const"; }
  std::string_view operator()(const Constant&) const { return "const"; }
  std::string_view operator()(const Conv&) const { return "conv"; }
  std::string_view operator()(const MatMul&) const { return "matmul"; }
  std::string_view operator()(const Unary& op) const { return at(kUnaryTypes, op.fn); }
  std::string_view operator()(const Binary& op) const { return at(kBinaryTypes, op.fn); }
  std::string_view operator()(const Compare& op) const { return at(kCompareTypes, op.fn); }
  std::string_view operator()(const Select&) const { return "select"; }
  std::string_view operator()(const Cast&) const { return "cast"; }
  std::string_view operator()(const Reduce& op) const { return at(kReduceTypes, op.fn); }
  std::string_view operator()(const Softmax&) const { return "softmax"; }
  std::string_view operator()(const Slice&) const { return "slice_by_size"; }
  std::string_view operator()(const Concat&) const { return "concat"; }
  std::string_view operator()(const Reshape&) const { return "reshape"; }
  std::string_view operator()(const Transpose&) const { return "transpose"; }
  std::string_view operator()(const StateRead&) const { return "read_state"; }
  std::string_view operator()(const StateWrite&) const { return "write_state"; }
  template <WithoutMilOp OpT>
  std::string_view operator()(const OpT&) const {
    return {};
  }
};

// Appends the bytes of a number in memory order, which the static_assert above requires to be
// little-endian.
template <class T>
void append(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A single value stands for all elements of a constant.
double element(const std::vector<double>& values, int64_t i) {
  return values.size() == 1 ? values.front() : at(values, i);
}

}  // namespace

std::string_view mil_op_type(const OpData& data) { return std::visit(OpType{}, data); }

std::optional<int> mil_dtype(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return mlmodel::FLOAT16;
    case DType::f32:
      return mlmodel::FLOAT32;
    case DType::i32:
      return mlmodel::INT32;
    case DType::boolean:
      return mlmodel::BOOL;
    case DType::bf16:
    case DType::i64:
    case DType::u8:
    case DType::f8_e4m3:
      return std::nullopt;
  }
  return std::nullopt;
}

// check_mil() has rejected all other types, so bool is the remaining one.
std::string_view mil_dtype_name(DType dtype) {
  if (dtype == DType::f16) return "fp16";
  if (dtype == DType::f32) return "fp32";
  return dtype == DType::i32 ? "int32" : "bool";
}

void fill_tensor_type(DType dtype, const Dims& dims, mlmodel::TensorType& tensor) {
  tensor.set_datatype(static_cast<mlmodel::DataType>(*mil_dtype(dtype)));
  tensor.set_rank(std::ssize(dims));
  for (int64_t size : dims) {
    mlmodel::Dimension& dimension = *tensor.add_dimensions();
    if (size < 0)  // the size depends on the width of a range package
      dimension.mutable_unknown();
    else
      dimension.mutable_constant()->set_size(static_cast<uint64_t>(size));
  }
}

// DataLayout finds literals by these bytes, so collect_blobs() and FunctionWriter both call
// float_bytes().
std::string float_bytes(const Type& type, const std::vector<double>& values) {
  std::string bytes;
  bytes.reserve(static_cast<size_t>(type.bytes()));
  for (int64_t i = 0; i < type.elements(); ++i) {
    const auto value = static_cast<float>(element(values, i));
    if (type.dtype == DType::f16)
      append(f16_from_f32(value), bytes);
    else
      append(value, bytes);
  }
  return bytes;
}

void fill_immediate(const Type& type, const std::vector<double>& values, mlmodel::Value& value) {
  fill_tensor_type(type.dtype, type.dims, *value.mutable_type()->mutable_tensortype());
  mlmodel::TensorValue& tensor = *value.mutable_immediatevalue()->mutable_tensor();
  // The format has no f16 list; it stores f16 as bytes.
  if (type.dtype == DType::f16)
    return tensor.mutable_bytes()->set_values(float_bytes(type, values));
  for (int64_t i = 0; i < type.elements(); ++i) {
    const double number = element(values, i);
    if (type.dtype == DType::f32)
      tensor.mutable_floats()->add_values(static_cast<float>(number));
    else if (type.dtype == DType::i32)
      tensor.mutable_ints()->add_values(static_cast<int32_t>(number));
    else
      tensor.mutable_bools()->add_values(number != 0);
  }
}

void fill_string(const std::string& text, mlmodel::Value& value) {
  mlmodel::TensorType& type = *value.mutable_type()->mutable_tensortype();
  type.set_datatype(mlmodel::STRING);
  value.mutable_immediatevalue()->mutable_tensor()->mutable_strings()->add_values(text);
}

}  // namespace moec
