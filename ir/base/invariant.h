// Broken invariants: conditions that no input can cause. They stop the program at once, with exit
// code 3 and, when a pass is running, with a reproducer file.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace moec {

inline constexpr int kInternalErrorExitCode = 3;

// Prints the message, runs the innermost reproducer hook of this thread, exits with code 3.
[[noreturn]] void fail_invariant(std::string_view file, int line, const std::string& message);

// While alive, a broken invariant on this thread calls `write`, which saves what reproduces it and
// returns the file's path (or an empty string when it could not be written).
class ReproducerScope {
 public:
  explicit ReproducerScope(std::function<std::string()> write);
  ~ReproducerScope();
  ReproducerScope(const ReproducerScope&) = delete;
  ReproducerScope& operator=(const ReproducerScope&) = delete;

 private:
  std::function<std::string()> write_;
  ReproducerScope* outer_;
  friend void fail_invariant(std::string_view, int, const std::string&);
};

#define MOEC_CHECK(condition, ...)                                                            \
  do {                                                                                        \
    if (!(condition)) ::moec::fail_invariant(__FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace moec
