#include "backends/formats/gguf/gguf_values.h"

#include <fmt/format.h>

#include <cstring>
#include <tuple>

#include "ir/base/at.h"
#include "ir/base/json.h"

namespace moec {
namespace {

// Decodes one value and advances `at`. Does not check bounds, because GgufHeaderReader has read all
// elements. Uses memcpy(), because values are not aligned.
template <class T>
void decode_next(const char*& at, T& value) {
  std::memcpy(&value, at, sizeof(T));
  at += sizeof(T);
}
// A memcpy() of a byte other than 0 and 1 into a bool would be undefined behavior.
void decode_next(const char*& at, bool& value) { value = *at++ != 0; }
void decode_next(const char*& at, std::string_view& value) {
  uint64_t length = 0;
  decode_next(at, length);
  value = {at, length};
  at += length;
}

}  // namespace

std::string to_string(const GgufValue& value) {
  return fmt::format("{}{}", value.is_array ? "array of " : "", enum_name(value.type));
}

GgufValues::GgufValues(std::string file, std::string header, GgufKeys keys)
    : held_(std::make_shared<Held>(Held{std::move(file), std::move(header), std::move(keys)})) {}

// Returns null if the key is absent.
Result<const GgufValue*> GgufValues::lookup(std::string_view key, GgufType type,
                                            bool is_array) const {
  const auto found = keys().find(key);
  if (found == keys().end()) return nullptr;
  const GgufValue& value = found->second;
  if (value.type == type && value.is_array == is_array) return &value;
  return fail("gguf.key_type",
              fmt::format("the value of \"{}\" has type {}, expected {}", printable(key),
                          to_string(value), to_string(GgufValue{type, is_array})),
              "convert the model again with a current converter",
              {.file = file(), .offset = value.offset});
}

Result<const GgufValue*> GgufValues::needed(std::string_view key, GgufType type,
                                            bool is_array) const {
  MOEC_ASSIGN(const GgufValue* value, lookup(key, type, is_array));
  if (value != nullptr) return value;
  return fail("gguf.missing_key",
              fmt::format("the file has no key \"{}\" of type {}", printable(key),
                          to_string(GgufValue{type, is_array})),
              "convert the model again with a current converter", {.file = file()});
}

template <class T>
std::vector<T> GgufValues::decode(const GgufValue& value) const {
  std::vector<T> elements;
  elements.reserve(value.count);
  const char* next = held_->header.data() + value.offset;
  for (uint64_t i = 0; i < value.count; ++i) {
    T element{};
    decode_next(next, element);
    elements.push_back(element);
  }
  return elements;
}

// Rounds integers above 2^53, because a double has 53 significant bits.
std::optional<double> GgufValues::as_number(const GgufValue& value) const {
  if (value.is_array) return std::nullopt;
  std::optional<double> number;
  const auto take = [&]<class T>(T) {
    if (value.type == gguf_type_of<T>()) number = static_cast<double>(decode<T>(value).front());
  };
  const auto take_each = [&](auto... types) { (take(types), ...); };
  std::apply(take_each, std::tuple<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t,
                                   int64_t, float, double, bool>());
  return number;
}

template <class T>
Result<T> GgufValues::get(std::string_view key) const {
  MOEC_ASSIGN(const GgufValue* value, needed(key, gguf_type_of<T>(), false));
  return decode<T>(*value).front();
}

template <class T>
Result<std::optional<T>> GgufValues::find(std::string_view key) const {
  MOEC_ASSIGN(const GgufValue* value, lookup(key, gguf_type_of<T>(), false));
  if (value == nullptr) return std::nullopt;
  return decode<T>(*value).front();
}

template <class T>
Result<std::vector<T>> GgufValues::get_array(std::string_view key) const {
  MOEC_ASSIGN(const GgufValue* value, needed(key, gguf_type_of<T>(), true));
  return decode<T>(*value);
}

template <class T>
Result<std::optional<std::vector<T>>> GgufValues::find_array(std::string_view key) const {
  MOEC_ASSIGN(const GgufValue* value, lookup(key, gguf_type_of<T>(), true));
  if (value == nullptr) return std::nullopt;
  return decode<T>(*value);
}

std::string_view GgufValues::bytes(const GgufValue& value) const {
  const char* const begin = held_->header.data() + value.offset;
  const uint8_t each = kGgufTypeBytes[static_cast<size_t>(value.type)];
  // Among element types, only strings have no fixed size; decoding finds their end.
  if (each != 0) return {begin, value.count * each};
  const char* end = begin;
  std::string_view text;
  for (uint64_t i = 0; i < value.count; ++i) decode_next(end, text);
  return {begin, static_cast<size_t>(end - begin)};
}

// The templates are defined in this file, so their instances for all value types must be here.
#define MOEC_GGUF_TYPE(T)                                                        \
  template Result<T> GgufValues::get(std::string_view) const;                    \
  template Result<std::optional<T>> GgufValues::find(std::string_view) const;    \
  template Result<std::vector<T>> GgufValues::get_array(std::string_view) const; \
  template Result<std::optional<std::vector<T>>> GgufValues::find_array(std::string_view) const;
MOEC_GGUF_TYPE(uint8_t)
MOEC_GGUF_TYPE(int8_t)
MOEC_GGUF_TYPE(uint16_t)
MOEC_GGUF_TYPE(int16_t)
MOEC_GGUF_TYPE(uint32_t)
MOEC_GGUF_TYPE(int32_t)
MOEC_GGUF_TYPE(float)
MOEC_GGUF_TYPE(bool)
MOEC_GGUF_TYPE(std::string_view)
MOEC_GGUF_TYPE(uint64_t)
MOEC_GGUF_TYPE(int64_t)
MOEC_GGUF_TYPE(double)
#undef MOEC_GGUF_TYPE

}  // namespace moec
