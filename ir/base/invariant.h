// Invariants: conditions that no input can violate. A violation is a bug in moec. It ends the
// process immediately with exit code 3 and, if a pass is running, saves a reproducer file.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>

namespace moec {

inline constexpr int kInternalErrorExitCode = 3;

// Prints the message, runs the innermost reproducer hook of this thread and ends the process with
// code 3. Does not unwind the stack: no destructors run.
[[noreturn]] void end_by_internal_error(const std::string& message);
// end_by_internal_error() with the location of the invariant appended to the message.
[[noreturn]] void fail_invariant(std::string_view file, int line, const std::string& message);

// Called once when an internal error ends the process, after the message was printed to stderr.
// `reproducer` is the path of the reproducer; it may be empty.
using InternalErrorReport = void (*)(const std::string& message, const std::string& reproducer);
// Sets the report, which may be null. Afterwards, an uncaught exception on any thread is an
// internal error, too.
void set_up_internal_errors(InternalErrorReport report);

// While the scope is alive, a violated invariant on this thread calls `write`, which saves a
// reproducer and returns its path, or an empty string on failure. Scopes nest; only the innermost
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
