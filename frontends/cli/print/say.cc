#include "frontends/cli/print/say.h"

#include <unistd.h>

namespace moec {

TextPrinter::TextPrinter() : TextPrinter(isatty(STDOUT_FILENO) == 1) {}

void TextPrinter::write(std::string_view bytes) {
  if (!to_terminal_) {
    fmt::print("{}", bytes);
    return;
  }
  pending_ += bytes;
  const size_t whole = pending_.size() - unfinished_bytes(pending_);
  print_out("{}", std::string_view(pending_).substr(0, whole));
  pending_.erase(0, whole);
}

void TextPrinter::finish() {
  if (!pending_.empty()) print_out("{}", pending_);
  pending_.clear();
}

void clear_line() {
  constexpr std::string_view kClear = "\r\x1b[K";
  std::fwrite(kClear.data(), 1, kClear.size(), stderr);
}

}  // namespace moec
