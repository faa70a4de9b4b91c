// Tables with one entry per enumerator. The number of enumerators is determined at compile time, so
// a table that lacks an entry for a new enumerator does not compile.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "ir/base/at.h"

namespace moec {

namespace internal {

// True if `Value` is one of its enum's enumerators. GCC and Clang spell an enumerator in
// __PRETTY_FUNCTION__ by its name, "… Value = moec::Layout::rows]", and any other value by its
// number, "… Value = (moec::Layout)7]": the last word before the bracket tells them apart. The
// result type is bool because GCC appends the meaning of a typedef to the text.
template <auto Value>
constexpr bool is_enumerator() {
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(0, text.rfind(']'));
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  size_t begin = text.size();
  while (begin > 0 && in_word(text[begin - 1])) --begin;
  return begin < text.size() && !(text[begin] >= '0' && text[begin] <= '9');
}

template <class E, size_t From = 0>
constexpr size_t count_enumerators() {
  if constexpr (is_enumerator<static_cast<E>(From)>())
    return count_enumerators<E, From + 1>();
  else
    return From;
}

}  // namespace internal

// The number of enumerators of E, which are numbered from 0 without gaps.
template <class E>
inline constexpr size_t enum_count = internal::count_enumerators<E>();

// enum_table<DType, DTypeInfo>({{"f32", 4}, …}): one entry per enumerator, in declaration order.
template <class E, class T, size_t N>
constexpr std::array<T, enum_count<E>> enum_table(const T (&entries)[N]) {
  static_assert(N == enum_count<E>, "the table needs one entry for each enumerator");
  std::array<T, enum_count<E>> table{};
  for (size_t i = 0; i < N; ++i) table[i] = entries[i];
  return table;
}

// enum_table() for text names: name_table<SumForm>({"chain", "tree"}).
template <class E, size_t N>
constexpr auto name_table(const std::string_view (&names)[N]) {
  return enum_table<E, std::string_view>(names);
}

// The name table of a table whose rows have names.
template <class Row, size_t N>
constexpr std::array<std::string_view, N> row_names(const std::array<Row, N>& rows) {
  std::array<std::string_view, N> names;
  for (size_t i = 0; i < N; ++i) names[i] = rows[i].name;
  return names;
}

// An enum with text names has a function enum_names(E) next to it, which returns its name_table.
// Any value may be passed; it only selects the overload.
template <class E>
constexpr std::string_view enum_name(E value) {
  return at(enum_names(E{}), value);
}

// Returns the enumerator with this name; empty for unknown names.
template <class E>
constexpr std::optional<E> parse_enum(std::string_view name) {
  const auto names = enum_names(E{});
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace moec
