#include "frontends/cli/print/say.h"

#include <unistd.h>

namespace moec {

TextPrinter::TextPrinter() : TextPrinter(isatty(STDOUT_FILENO) == 1) {}

void TextPrinter::write(std::string_view bytes) {
  // Files and pipes get the bytes unchanged, because another program may read them.
  if (!to_terminal_) {
    fmt::print("{}", bytes);
    return;
  }
  pending_ += bytes;
  // Half a character would be escaped as invalid UTF-8.
  const size_t whole = pending_.size() - unfinished_bytes(pending_);
  print_out("{}", std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
}

void TextPrinter::finish() {
  // A text that ends within a character: its bytes are escaped.
  if (!pending_.empty()) print_out("{}", pending_);
  pending_.clear();
}

void clear_line() {
  // Carriage return, then the ANSI sequence that erases to the end of the line.
  constexpr std::string_view kClear = "\r\x1b[K";
  std::fwrite(kClear.data(), 1, kClear.size(), stderr);
}

}  // namespace moec
