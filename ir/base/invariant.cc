#include "ir/base/invariant.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace moec {

// Each thread has its own innermost scope, because threads work independently.
static thread_local ReproducerScope* innermost = nullptr;
static InternalErrorReport report_of_process = nullptr;

// Unlike fmt::print, does not throw if stderr is full or closed.
static void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

ReproducerScope::ReproducerScope(std::function<std::string()> write)
    : write_(std::move(write)), outer_(innermost) {
  innermost = this;
}

ReproducerScope::~ReproducerScope() { innermost = outer_; }

static void report_once(const std::string& message, const std::string& reproducer) {
  static std::atomic_flag is_reported;
  while (is_reported.test_and_set()) ::pause();  // another thread is ending the process
  if (!report_of_process) return;
  try {
    report_of_process(message, reproducer);
  } catch (...) {
    // The report cannot be written. Rethrowing would terminate and so wait for this flag forever.
  }
}

void end_by_internal_error(const std::string& message) {
  say(fmt::format("internal error: {}\n", message));
  std::string reproducer;
  if (ReproducerScope* scope = innermost) {
    innermost = scope->outer_;  // a failure inside the hook must not call it again
    reproducer = scope->write_();
    if (!reproducer.empty()) say(fmt::format("  reproducer: {}\n", reproducer));
  }
  report_once(message, reproducer);
  // _Exit() neither flushes streams nor runs destructors: other threads may still use objects.
  std::fflush(nullptr);
  std::_Exit(kInternalErrorExitCode);
}

void fail_invariant(std::string_view file, int line, const std::string& message) {
  end_by_internal_error(fmt::format("{} ({}:{})", message, file, line));
}

static std::string uncaught_exception_text() {
  try {
    if (const std::exception_ptr uncaught = std::current_exception())
      std::rethrow_exception(uncaught);
  } catch (const std::exception& error) {
    return fmt::format("uncaught exception: {}", error.what());
  } catch (...) {
    return "uncaught exception of an unknown type";
  }
  return "std::terminate was called";
}

void set_up_internal_errors(InternalErrorReport report) {
  report_of_process = report;
  std::set_terminate([] { end_by_internal_error(uncaught_exception_text()); });
}

}  // namespace moec
