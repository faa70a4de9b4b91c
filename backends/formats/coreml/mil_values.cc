#include "backends/formats/coreml/mil_values.h"

#include <fmt/format.h>
#include <mlmodel.pb.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

static_assert(std::endian::native == std::endian::little, "bytes are read in memory order");

Result<DType> dtype_of(mlmodel::DataType type, const std::string& name) {
  switch (type) {
    case mlmodel::FLOAT16:
      return DType::f16;
    case mlmodel::FLOAT32:
      return DType::f32;
    case mlmodel::INT32:
      return DType::i32;
    case mlmodel::BOOL:
      return DType::boolean;
    default:
      return fail("coreml.dtype",
                  fmt::format("element type {} is unsupported", static_cast<int>(type)),
                  "use f16, f32, i32 or bool", {.tensor = name});
  }
}

// The size of a dimension; 0 if unknown, −1 if invalid.
int64_t size_of(const mlmodel::Dimension& dimension) {
  // A variadic dimension stands for any number of axes, but an IR type has a fixed rank.
  if (dimension.has_unknown()) return dimension.unknown().variadic() ? -1 : 0;
  const uint64_t size = dimension.constant().size();
  return size >= 1 && size <= static_cast<uint64_t>(kMaxElements) ? static_cast<int64_t>(size) : -1;
}

// Omits unknown sizes, which are 0, because checked_elements() rejects sizes below 1.
Dims known_part(Dims dims) {
  std::erase(dims, 0);
  return dims;
}

// Protobuf returns an empty default for an absent field, so tensor_of() is safe for any value.
const mlmodel::TensorValue& tensor_of(const mlmodel::Value& value) {
  return value.immediatevalue().tensor();
}

bool is_immediate(const mlmodel::Value& value) {
  return value.immediatevalue().has_tensor() && value.type().has_tensortype();
}

tl::unexpected<Diagnostics> wrong_argument(std::string_view wanted, const std::string& name) {
  return fail("coreml.argument", fmt::format("expected {} as an immediate value", wanted),
              "export the model again", {.tensor = name});
}

// True if the value is an immediate scalar of this element type.
bool is_scalar(const mlmodel::Value& value, mlmodel::DataType dtype) {
  const mlmodel::TensorType& type = value.type().tensortype();
  return is_immediate(value) && type.datatype() == dtype && type.rank() == 0 &&
         type.dimensions().empty();
}

// Ignores an odd last byte; immediate_values() rejects it.
std::vector<double> halves(const std::string& bytes) {
  std::vector<double> values;
  values.reserve(bytes.size() / 2);
  for (size_t at = 0; at + 1 < bytes.size(); at += 2) {
    uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, sizeof bits);
    values.push_back(f32_from_f16(bits));
  }
  return values;
}

// Reads the list that belongs to `dtype`. If the value uses another list, the result is empty, and
// the callers reject the count.
std::vector<double> elements_of(const mlmodel::TensorValue& tensor, DType dtype) {
  auto all = [](const auto& values) { return std::vector<double>(values.begin(), values.end()); };
  if (dtype == DType::f16) return halves(tensor.bytes().values());
  if (dtype == DType::f32) return all(tensor.floats().values());
  if (dtype == DType::boolean) return all(tensor.bools().values());
  return all(tensor.ints().values());
}

}  // namespace

Result<StatedType> stated_type(const mlmodel::TensorType& type, const std::string& name) {
  MOEC_ASSIGN(const DType dtype, dtype_of(type.datatype(), name));
  const auto stated_rank = static_cast<int64_t>(type.dimensions_size());
  // The rank is stated twice. kMaxRank bounds the number of sizes before they are stored.
  if (type.rank() != stated_rank || stated_rank > static_cast<int64_t>(kMaxRank))
    return fail("coreml.shape",
                fmt::format("a type has rank {} and {} sizes, expected equal numbers of at most {}",
                            type.rank(), stated_rank, kMaxRank),
                "export the model again", {.tensor = name});
  StatedType stated{dtype, {}};
  for (const mlmodel::Dimension& dimension : type.dimensions())
    stated.dims.push_back(size_of(dimension));
  if (!checked_elements(known_part(stated.dims)))
    return fail("coreml.shape", "a shape has a size below 1, or too many elements",
                "export the model again", {.tensor = name});
  return stated;
}

Result<Type> fixed_type(const mlmodel::TensorType& type, const std::string& name) {
  MOEC_ASSIGN(StatedType stated, stated_type(type, name));
  if (std::find(stated.dims.begin(), stated.dims.end(), 0) == stated.dims.end())
    return Type{stated.dtype, std::move(stated.dims)};
  return fail("coreml.dynamic_shape", fmt::format("{} has an unknown size", to_string(stated)),
              "export the model with static shapes", {.tensor = name});
}

// With four iterators, std::equal() returns false for different ranks.
bool agrees(const StatedType& stated, const Type& type) {
  return stated.dtype == type.dtype &&
         std::equal(stated.dims.begin(), stated.dims.end(), type.dims.begin(), type.dims.end(),
                    [](int64_t size, int64_t actual) { return size == 0 || size == actual; });
}

std::string to_string(const StatedType& stated) {
  std::string sizes;
  for (int64_t size : stated.dims)
    sizes += (sizes.empty() ? "" : ",") + (size == 0 ? "?" : std::to_string(size));
  return fmt::format("{}[{}]", dtype_name(stated.dtype), sizes);
}

Result<std::vector<double>> immediate_values(const mlmodel::Value& value, const Type& type,
                                             const std::string& name) {
  std::vector<double> values = elements_of(tensor_of(value), type.dtype);
  // An f16 element has two bytes, so an odd number of bytes is invalid.
  const bool whole = type.dtype != DType::f16 || tensor_of(value).bytes().values().size() % 2 == 0;
  if (is_immediate(value) && whole && std::ssize(values) == type.elements()) return values;
  return fail(
      "coreml.value",
      fmt::format("a value has {} elements, but its type is {}", values.size(), to_string(type)),
      "export the model again", {.tensor = name});
}

Result<std::vector<int64_t>> integers_of(const mlmodel::Value& value, const std::string& name) {
  const mlmodel::TensorType& type = value.type().tensortype();
  const auto& values = tensor_of(value).ints().values();
  const bool is_vector = type.rank() == 1 && type.dimensions_size() == 1 &&
                         size_of(type.dimensions(0)) == values.size();
  if (!is_immediate(value) || type.datatype() != mlmodel::INT32 || !is_vector)
    return wrong_argument("a vector of i32", name);
  return std::vector<int64_t>(values.begin(), values.end());
}

Result<int64_t> integer_of(const mlmodel::Value& value, const std::string& name) {
  const auto& values = tensor_of(value).ints().values();
  if (!is_scalar(value, mlmodel::INT32) || values.size() != 1)
    return wrong_argument("one i32", name);
  return values[0];
}

Result<bool> boolean_of(const mlmodel::Value& value, const std::string& name) {
  const auto& values = tensor_of(value).bools().values();
  if (!is_scalar(value, mlmodel::BOOL) || values.size() != 1) return wrong_argument("a bool", name);
  return values[0];
}

Result<std::string> text_of(const mlmodel::Value& value, const std::string& name) {
  const auto& values = tensor_of(value).strings().values();
  if (!is_scalar(value, mlmodel::STRING) || values.size() != 1)
    return wrong_argument("a string", name);
  return values[0];
}

// A number such as epsilon has the element type of the operand, so f16 and f32 are accepted.
Result<double> number_of(const mlmodel::Value& value, const std::string& name) {
  const bool half = is_scalar(value, mlmodel::FLOAT16);
  if (!half && !is_scalar(value, mlmodel::FLOAT32)) return wrong_argument("a number", name);
  const std::vector<double> values = elements_of(tensor_of(value), half ? DType::f16 : DType::f32);
  if (values.size() != 1) return wrong_argument("a number", name);
  return values.front();
}

}  // namespace moec
