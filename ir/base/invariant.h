// Invariants: conditions that no input can violate. A broken one is a bug of moec; it ends the
// process at once with exit code 3 and, when a pass is running, saves a reproducer file.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace moec {

inline constexpr int kInternalErrorExitCode = 3;

// Prints the message, runs the innermost reproducer hook of this thread and ends the process with
// code 3. Nothing is unwound: destructors do not run.
[[noreturn]] void fail_invariant(std::string_view file, int line, const std::string& message);

// While it is alive, a broken invariant on this thread calls `write`, which saves a reproducer and
// returns its path, or an empty string if it cannot be written. Scopes nest; only the innermost
// hook is called.
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
