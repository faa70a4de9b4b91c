#include "ir/base/refusals.h"

#include <fmt/format.h>

namespace moec {

Diagnostic refused_memory() {
  return {Severity::error,
          "system.memory",
          "the system refused to allocate memory",
          "raise the limit of ulimit -v or the container, or pass a smaller --memory and fewer "
          "--jobs",
          {}};
}

Diagnostic refused_resource(const std::system_error& error) {
  return {Severity::error,
          "system.resource",
          fmt::format("the system refused a resource: {}", error.what()),
          "raise the limits of processes and memory, or pass fewer --jobs",
          {}};
}

bool ThreadGroup::start(std::function<void()> work) {
  try {
    // The system can refuse a thread, for example at the limit of ulimit -u. The caller decides how
    // to continue without the thread.
    threads_.emplace_back(std::move(work));
    return true;
  } catch (const std::system_error&) {
    return false;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

void ThreadGroup::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace moec
