#include "frontends/cli/print/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {
namespace {

// A terminal is redrawn at most ten times per second. Earlier rates would be noise.
constexpr std::chrono::milliseconds kRedraw(100);

// Read before each line, because a user may resize the terminal.
size_t terminal_columns() {
  winsize size{};
  constexpr size_t kUsual = 80;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

std::string clock_text(double seconds) {
  const auto whole = static_cast<uint64_t>(std::max(seconds, 0.0));
  const uint64_t hours = whole / 3600, minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

std::string_view first_columns(std::string_view text, size_t columns) {
  size_t used = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Bytes after the first of a character need no columns.
    if ((byte & 0xC0) == 0x80) continue;
    used += byte < 0x80 ? 1 : 2;
    if (used > columns) return text.substr(0, i);
  }
  return text;
}

Progress::Progress(std::string verb, bool quiet, std::string unit)
    : verb_(std::move(verb)),
      unit_(std::move(unit)),
      // Checks stderr, because progress is printed there.
      shows_(!quiet && isatty(STDERR_FILENO) == 1) {}

std::string Progress::amount(double count) const {
  if (unit_ == "bytes") return decimal_bytes(count);
  // A fraction matters only for small rates, such as 0.5 documents per second.
  return fmt::format("{:.{}f} {}", count, count < 100 && count != std::floor(count) ? 1 : 0, unit_);
}

void Progress::advance(uint64_t count, uint64_t total, const std::string& what) {
  // Several jobs may report concurrently.
  std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  // At least 1, because the percentage divides by it.
  total = std::max<uint64_t>(total, 1);
  // The clock starts at the first report, because planning before it would lower the rate.
  const bool begins = !start_ || total != total_;
  if (begins) {
    start_ = now;
    done_ = 0;
    total_ = total;
  }
  // Estimates of the total may be too low, so the count is limited to 100 %.
  done_ = std::min(done_ + count, total_);
  if (!shows_ || (!begins && now - last_print_ < kRedraw)) return;
  last_print_ = now;
  drawn_ = true;
  // One column stays free: a terminal would wrap a line that fills the last one.
  const std::string text = escape_controls(line(now, what));
  // The next line may be shorter than the previous one.
  clear_line();
  say("{}", first_columns(text, terminal_columns() - 1));
  // A line-buffered stderr would hold back a line without a newline.
  std::fflush(stderr);
}

// The order of the parts is that of their importance, because narrow terminals cut the end.
std::string Progress::line(Clock::time_point now, const std::string& what) const {
  // The product overflows only above 10^17 units, which no run reaches.
  std::string text = fmt::format("{} {:3d} %", verb_, done_ * 100 / total_);
  const double seconds = std::chrono::duration<double>(now - *start_).count();
  const double rate = static_cast<double>(done_) / std::max(seconds, 1e-3);
  const bool has_rate = done_ > 0 && now - *start_ >= kRedraw;
  if (has_rate)
    text += fmt::format(", {} left", clock_text(static_cast<double>(total_ - done_) / rate));
  if (has_rate && !unit_.empty()) text += fmt::format(", {}/s", amount(rate));
  if (!unit_.empty())
    text += fmt::format(", {} of {}",
                        unit_ == "bytes" ? decimal_bytes(done_) : fmt::format("{}", done_),
                        amount(static_cast<double>(total_)));
  return what.empty() ? text : text + ": " + what;
}

void Progress::finish() {
  std::lock_guard lock(mutex_);
  if (!drawn_) return;
  drawn_ = false;
  clear_line();
  std::fflush(stderr);
}

}  // namespace moec
