#include "ir/base/invariant.h"

#include <cstdio>
#include <cstdlib>

namespace moec {

static thread_local ReproducerScope* innermost = nullptr;

// Unlike fmt::print, does not throw where stderr is full or closed.
static void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

ReproducerScope::ReproducerScope(std::function<std::string()> write)
    : write_(std::move(write)), outer_(innermost) {
  innermost = this;
}

ReproducerScope::~ReproducerScope() { innermost = outer_; }

void fail_invariant(std::string_view file, int line, const std::string& message) {
  say(fmt::format("internal error: {} ({}:{})\n", message, file, line));
  if (ReproducerScope* scope = innermost) {
    innermost = scope->outer_;  // a failure inside the hook must not call it again
    std::string path = scope->write_();
    if (!path.empty()) say(fmt::format("  reproducer: {}\n", path));
  }
  std::fflush(nullptr);
  std::_Exit(kInternalErrorExitCode);
}

}  // namespace moec
