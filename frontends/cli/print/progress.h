// Progress of a long command: one line on stderr that is rewritten, with the part that is done, the
// time left and the rate. Prints nothing if stderr is not a terminal.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "ir/base/seconds_since.h"

namespace moec {

// Thread-safe.
class Progress {
 public:
  // `verb` begins the line, e.g. "export". `unit` names the counted unit, in the plural; empty: the
  // line has no amounts, but only the percentage and the time left. Prints nothing if `quiet` is
  // set.
  Progress(std::string verb, bool quiet, std::string unit = "bytes");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Clears the line if the command fails before finish().
  ~Progress() { finish(); }

  // Adds `count` units to the work done of `total`. `what` names the current item. The first call
  // starts the clock. A call with another total begins a new phase of the command, with a new count
  // and clock.
  void advance(uint64_t count, uint64_t total, const std::string& what);
  // advance(), as the callback of a job.
  std::function<void(uint64_t count, uint64_t total, const std::string& what)> callback() {
    return [this](uint64_t count, uint64_t total, const std::string& what) {
      advance(count, total, what);
    };
  }
  // Clears the line.
  void finish();

 private:
  std::string line(Clock::time_point now, const std::string& what) const;
  std::string amount(double count) const;

  std::mutex mutex_;
  std::string verb_, unit_;
  uint64_t total_ = 1, done_ = 0;
  bool shows_, drawn_ = false;  // drawn_: the terminal has a line to clear
  std::optional<Clock::time_point> start_;
  Clock::time_point last_print_;
};

// Formats a duration as "0:07", "12:34" or "3:25:45".
std::string clock_text(double seconds);

// Cuts a text to at most `columns` columns of a terminal. Counts characters outside ASCII as two,
// the largest width of a character.
std::string_view first_columns(std::string_view text, size_t columns);

}  // namespace moec
