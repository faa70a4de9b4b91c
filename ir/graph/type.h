// Value types: an element type, a layout, and up to five fixed positive sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/at.h"
#include "ir/base/enum_table.h"

namespace moec {

enum class DType : uint8_t { f32, f16, bf16, i64, i32, u8, boolean, f8_e4m3 };

constexpr auto enum_names(DType) {
  return name_table<DType>({"f32", "f16", "bf16", "i64", "i32", "u8", "bool", "f8_e4m3"});
}
constexpr std::string_view dtype_name(DType dtype) { return enum_name(dtype); }
constexpr std::optional<DType> parse_dtype(std::string_view name) {
  return parse_enum<DType>(name);
}
int64_t dtype_bytes(DType dtype);
bool is_float(DType dtype);  // f32, f16, bf16: the types of arithmetic

// The meaning of a token tensor's axes. In every token layout, axis 1 is the channel axis.
//   plain     the axes have no fixed meaning
//   rows      [T, C]        the matmul form
//   channels  [1, C, T, 1]  the 1x1-convolution form
//   bc1s      [1, C, 1, T]  as channels, but tokens last; the order of elements is the same
enum class Layout : uint8_t { plain, rows, channels, bc1s };

// The layouts of the convolution form, in which the tokens of a channel are contiguous.
constexpr bool is_channel_major(Layout layout) {
  return layout == Layout::channels || layout == Layout::bc1s;
}

constexpr auto enum_names(Layout) {
  return name_table<Layout>({"plain", "rows", "channels", "bc1s"});
}
constexpr std::string_view layout_name(Layout layout) { return enum_name(layout); }
constexpr std::optional<Layout> parse_layout(std::string_view name) {
  return parse_enum<Layout>(name);
}

// The sizes of a tensor's axes, outermost first. Empty for a scalar.
class Dims : public std::vector<int64_t> {
 public:
  using std::vector<int64_t>::vector;
  Dims(std::vector<int64_t> sizes)  // NOLINT(google-explicit-constructor): they are the same thing
      : std::vector<int64_t>(std::move(sizes)) {}

  // The size along `axis`, which must be in range.
  int64_t& at(int64_t axis) { return (*this)[static_cast<size_t>(axis)]; }
  int64_t at(int64_t axis) const { return (*this)[static_cast<size_t>(axis)]; }
  int64_t rank() const { return std::ssize(*this); }
};

inline constexpr int64_t kMaxRank = 5;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

struct Type {
  DType dtype = DType::f32;
  Dims dims;
  Layout layout = Layout::plain;

  int64_t rank() const { return dims.rank(); }
  int64_t elements() const;
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
  bool operator==(const Type&) const = default;
};

// Product of the sizes. Empty if a size is not positive or the product exceeds kMaxElements.
std::optional<int64_t> checked_elements(const Dims& dims);

std::string to_string(const Dims& dims);  // "[1,64,8,1]"
std::string to_string(const Type& type);  // "f32[1,64,8,1]{channels}", "f16[]"

// Token tensors: `tokens` rows of `channels` values.
Type token_type(DType dtype, Layout layout, int64_t channels, int64_t tokens);
inline constexpr int64_t kChannelAxis = 1;
constexpr int64_t token_axis(Layout layout) {
  return layout == Layout::bc1s ? 3 : layout == Layout::channels ? 2 : 0;
}
int64_t channels_of(const Type& type);  // of a rows or channels type
int64_t tokens_of(const Type& type);
// The shape that broadcasts a vector of `channels` values over a token tensor of this layout.
Dims channel_vector_dims(Layout layout, int64_t channels);
// True if `dims` fit the layout: rank 2 for rows, [1, C, T, 1] for channels, [1, C, 1, T] for bc1s,
// any sizes for plain.
bool fits_layout(const Dims& dims, Layout layout);

// Lists of axes, as in `transpose` and the view step `permute`.

// True if the list is 0, 1, 2, …
inline bool is_identity(const std::vector<int64_t>& axes) {
  for (int64_t i = 0; i < std::ssize(axes); ++i)
    if (at(axes, i) != i) return false;
  return true;
}

// True if the list contains each of the axes 0 … rank - 1 exactly once.
inline bool is_permutation(std::vector<int64_t> axes, int64_t rank) {
  std::sort(axes.begin(), axes.end());
  return std::ssize(axes) == rank && is_identity(axes);
}

}  // namespace moec
