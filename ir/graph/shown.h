// Text of a value in a message that may never be formatted. Nearly all requirements of a check
// hold, and the text of a type allocates memory.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

namespace moec {

template <class T>
struct Shown {
  const T& value;
};

// An argument of fmt::format() that is formatted as to_string(value). Refers to `value`.
template <class T>
Shown<T> shown(const T& value) {
  return {value};
}

// to_string() of moec: a call within fmt would fall back to fmt::to_string().
template <class T>
std::string shown_text(const Shown<T>& shown) {
  return to_string(shown.value);
}

}  // namespace moec

template <class T>
struct fmt::formatter<moec::Shown<T>> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const moec::Shown<T>& shown, Context& context) const {
    return fmt::formatter<std::string_view>::format(moec::shown_text(shown), context);
  }
};
