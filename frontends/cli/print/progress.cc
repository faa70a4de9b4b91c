#include "frontends/cli/print/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::string verb, bool quiet, std::string unit)
    : verb_(std::move(verb)),
      unit_(std::move(unit)),
      quiet_(quiet),
      // Checks stderr, because progress is printed there.
      terminal_(isatty(STDERR_FILENO) == 1) {}

std::string Progress::amount(double count) const {
  // A fraction matters only for small counts, such as 0.5 documents per second.
  return unit_ == "bytes" ? decimal_bytes(count)
                          : fmt::format("{:.{}f} {}", count, count < 100 ? 1 : 0, unit_);
}

void Progress::advance(uint64_t count, uint64_t total, const std::string& what) {
  // Several jobs may report concurrently.
  std::lock_guard lock(mutex_);
  // The clock starts at the first report, because planning before it would lower the rate.
  if (!start_) start_ = last_print_ = Clock::now();
  // At least 1, because the percentage divides by it.
  total_ = std::max<uint64_t>(total, 1);
  // Estimates of the total may be too low, so the count is limited to 100 %.
  done_ = std::min(done_ + count, total_);
  if (quiet_) return;
  // The product overflows only above 10^18 units, which no run reaches.
  const uint64_t tenth = done_ * 10 / total_;
  const auto now = Clock::now();
  // A terminal is redrawn at most ten times per second. A log gets at most ten lines.
  const bool due =
      terminal_ ? now - last_print_ > std::chrono::milliseconds(100) : tenth > last_tenth_;
  if (!due) return;
  last_tenth_ = tenth;
  last_print_ = now;
  print_line(what);
}

void Progress::print_line(const std::string& what) {
  // At least a millisecond, so that the first rate is not a division by zero.
  const double seconds =
      std::max(1e-3, std::chrono::duration<double>(Clock::now() - *start_).count());
  const double rate = static_cast<double>(done_) / seconds;
  const double left = rate > 0 ? static_cast<double>(total_ - done_) / rate : 0;
  // The next line may be shorter than the previous one.
  if (terminal_) clear_line();
  say("{} {:3d} % of {}, {}/s, {:.0f} s left: {}{}", verb_, done_ * 100 / total_,
      unit_ == "bytes" ? amount(static_cast<double>(total_)) : fmt::format("{} {}", total_, unit_),
      amount(rate), left, what, terminal_ ? "" : "\n");
  // A line-buffered stderr would hold back a line without a newline.
  std::fflush(stderr);
}

void Progress::finish() {
  std::lock_guard lock(mutex_);
  if (quiet_ || !terminal_) return;
  clear_line();
  std::fflush(stderr);
}

}  // namespace moec
