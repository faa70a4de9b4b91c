// All output of commands goes through this file: results to stdout; progress, notes and errors to
// stderr. Control characters that a terminal would interpret are escaped (ir/base/terminal_text.h).
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "ir/base/terminal_text.h"

namespace moec {

// Prints like fmt::print(stderr, …), but does not throw if stderr is full or closed: a lost line of
// progress must not end an export.
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = escape_controls(fmt::format(format, std::forward<Args>(args)...));
  std::fwrite(text.data(), 1, text.size(), stderr);
}

// Prints to stdout. Throws like fmt::print() if the write fails.
template <class... Args>
void print_out(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print("{}", escape_controls(fmt::format(format, std::forward<Args>(args)...)));
}

// Prints a text that is itself the result of a command: unchanged, or escaped if stdout is a
// terminal.
class TextPrinter {
 public:
  TextPrinter();
  explicit TextPrinter(bool to_terminal) : to_terminal_(to_terminal) {}
  // A UTF-8 character may be split across calls.
  void write(std::string_view bytes);
  void finish();

 private:
  bool to_terminal_;
  std::string pending_;  // bytes of an incomplete character
};

// Clears the terminal line that shows the progress.
void clear_line();

}  // namespace moec
