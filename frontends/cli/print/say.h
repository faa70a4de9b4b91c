// The only place through which commands print: results to stdout; progress, notes and errors to
// stderr. What a terminal would obey is escaped (ir/base/terminal_text.h).
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "ir/base/terminal_text.h"

namespace moec {

// Formats as fmt::print(stderr, …) does, but does not throw where stderr is full or closed: a lost
// line of progress must not end an export.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = escape_controls(fmt::format(format, std::forward<Args>(args)...));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// Formats to stdout. Throws as fmt::print() does where stdout takes no more.
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{}", escape_controls(fmt::format(format, std::forward<Args>(args)...)));
}

// Prints a text that is itself the result. Its bytes are written as they are, except to a terminal.
class TextPrinter {
 public:
  TextPrinter();
  explicit TextPrinter(bool to_terminal) : to_terminal_(to_terminal) {}
  // A character may be spread over several calls.
  void write(std::string_view bytes);
  void finish();

 private:
  bool to_terminal_;
  std::string pending_;  // the beginning of a character
};

// Clears the line of a terminal that progress is shown on.
void clear_line();

}  // namespace moec
