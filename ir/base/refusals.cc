#include "ir/base/refusals.h"

#include <fmt/format.h>

namespace moec {

Diagnostic refused_memory() {
  return {Severity::error,
          "system.memory",
          "the system refused memory",
          "raise the limit (ulimit -v, or that of the container), or give less --memory and fewer "
          "--jobs",
          {}};
}

Diagnostic refused_resource(const std::system_error& error) {
  return {Severity::error,
          "system.resource",
          fmt::format("the system refused a resource: {}", error.what()),
          "raise the limits of processes and memory, or use fewer --jobs",
          {}};
}

bool ThreadGroup::start(std::function<void()> work) {
  try {
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
