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
[[noreturn]] void end_by_internal_error(const std::string& message);
// The same, with the place of the invariant behind the message.
[[noreturn]] void fail_invariant(std::string_view file, int line, const std::string& message);

// Is called once, before the process ends by an internal error and behind what stderr is told, with
// the message and the path of the reproducer, which may be empty.
using InternalErrorReport = void (*)(const std::string& message, const std::string& reproducer);
// Sets the report, which may be null. From now on an uncaught exception of any thread is an
// internal error, too.
void set_up_internal_errors(InternalErrorReport report);

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
  friend void end_by_internal_error(const std::string&);
};

#define MOEC_CHECK(condition, ...)                                                            \
  do {                                                                                        \
    if (!(condition)) ::moec::fail_invariant(__FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace moec
