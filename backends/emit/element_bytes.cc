#include "backends/emit/element_bytes.h"

#include <bit>
#include <cstring>

#include "ir/graph/scalar.h"

namespace moec {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are in memory order");

template <class T>
void append(T value, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// check_constants() has checked the range, so no cast to an integer type is out of range.
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
      return;  // no format has it: rejected before emission
  }
}

// Uses memcpy(), because raw data need not be aligned.
template <class T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

// Integers become doubles, too; fit_doubles() finds those that a double rounds.
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
    case DType::f8_e4m3:  // no format has it
      return load<uint8_t>(bytes);
  }
  return 0;
}

}  // namespace

std::string element_bytes(DType dtype, const std::vector<double>& values) {
  std::string bytes;
  bytes.reserve(values.size() * static_cast<size_t>(dtype_bytes(dtype)));
  for (double value : values) append_element(dtype, value, bytes);
  return bytes;
}

std::vector<double> element_values(DType dtype, std::string_view bytes) {
  const auto size = static_cast<size_t>(dtype_bytes(dtype));
  std::vector<double> values;
  values.reserve(bytes.size() / size);
  for (size_t at = 0; at < bytes.size(); at += size)
    values.push_back(element(dtype, bytes.data() + at));
  return values;
}

bool fit_doubles(std::string_view bytes) {
  constexpr int64_t kLimit = int64_t{1} << 53;
  for (size_t at = 0; at + sizeof(int64_t) <= bytes.size(); at += sizeof(int64_t))
    if (const auto value = load<int64_t>(bytes.data() + at); value < -kLimit || value > kLimit)
      return false;
  return true;
}

}  // namespace moec
