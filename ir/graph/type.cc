#include "ir/graph/type.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/base/at.h"
#include "ir/base/invariant.h"

namespace moec {
int64_t dtype_bytes(DType dtype) {
  static constexpr auto kBytes = enum_table<DType, int64_t>({4, 2, 2, 8, 4, 1, 1, 1});
  return at(kBytes, dtype);
}

bool is_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::optional<int64_t> checked_elements(const Dims& dims) {
  int64_t product = 1;
  for (int64_t size : dims) {
    // Divides kMaxElements, because the product could overflow.
    if (size <= 0 || size > kMaxElements / product) return std::nullopt;
    product *= size;
  }
  return product;
}

int64_t Type::elements() const {
  auto count = checked_elements(dims);
  MOEC_CHECK(count, "type {} has no element count", to_string(*this));
  return *count;
}

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims, ",")); }

std::string to_string(const Type& type) {
  std::string text = fmt::format("{}{}", dtype_name(type.dtype), to_string(type.dims));
  if (type.layout != Layout::plain) text += fmt::format("{{{}}}", layout_name(type.layout));
  return text;
}

Type token_type(DType dtype, Layout layout, int64_t channels, int64_t tokens) {
  MOEC_CHECK(layout != Layout::plain, "a token type needs a token layout");
  if (layout == Layout::rows) return {dtype, {tokens, channels}, layout};
  Dims dims{1, channels, 1, 1};
  // The axis of the tokens depends on the layout; the other of the axes 2 and 3 has length 1.
  dims.at(token_axis(layout)) = tokens;
  return {dtype, std::move(dims), layout};
}

int64_t channels_of(const Type& type) {
  MOEC_CHECK(type.layout != Layout::plain, "{} is not the type of a token tensor", to_string(type));
  return type.dims.at(kChannelAxis);
}

int64_t tokens_of(const Type& type) {
  MOEC_CHECK(type.layout != Layout::plain, "{} is not the type of a token tensor", to_string(type));
  return type.dims.at(token_axis(type.layout));
}

Dims channel_vector_dims(Layout layout, int64_t channels) {
  return is_channel_major(layout) ? Dims{1, channels, 1, 1} : Dims{1, channels};
}

bool fits_layout(const Dims& dims, Layout layout) {
  if (layout == Layout::rows) return dims.size() == 2;
  if (!is_channel_major(layout)) return true;
  // The axes 2 and 3 sum to 5, so 5 − token_axis() is the axis without tokens.
  return dims.size() == 4 && dims[0] == 1 && dims[5 - token_axis(layout)] == 1;
}

}  // namespace moec
