#include "frontends/cli/print/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "frontends/cli/print/say.h"
#include "ir/base/byte_text.h"

namespace moec {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::string verb, bool quiet)
    : verb_(std::move(verb)), quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void Progress::advance(uint64_t bytes, uint64_t total, const std::string& what) {
  std::lock_guard lock(mutex_);
  if (!start_) start_ = last_print_ = Clock::now();
  total_ = std::max<uint64_t>(total, 1);
  done_ = std::min(done_ + bytes, total_);
  if (quiet_) return;
  const uint64_t tenth = done_ * 10 / total_;
  const auto now = Clock::now();
  const bool due =
      terminal_ ? now - last_print_ > std::chrono::milliseconds(100) : tenth > last_tenth_;
  if (!due) return;
  last_tenth_ = tenth;
  last_print_ = now;
  print_line(what);
}

void Progress::print_line(const std::string& what) {
  const double seconds =
      std::max(1e-3, std::chrono::duration<double>(Clock::now() - *start_).count());
  const double rate = static_cast<double>(done_) / seconds;
  const double left = rate > 0 ? static_cast<double>(total_ - done_) / rate : 0;
  if (terminal_) clear_line();
  say("{} {:3d} % of {}, {}/s, {:.0f} s left: {}{}", verb_, done_ * 100 / total_,
      binary_bytes(static_cast<double>(total_)), binary_bytes(rate), left, what,
      terminal_ ? "" : "\n");
  std::fflush(stderr);
}

void Progress::finish() {
  std::lock_guard lock(mutex_);
  if (quiet_ || !terminal_) return;
  clear_line();
  std::fflush(stderr);
}

}  // namespace moec
