// Prints progress, notes and errors to stderr.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace moec {

// Formats as fmt::print(stderr, …) does, but does not throw where stderr is full or closed: a lost
// line of progress must not end an export.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

}  // namespace moec
