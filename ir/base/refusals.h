// Memory and threads that the system refuses, as under ulimit or in a small container: errors, or
// less work at a time, never a crash.
#pragma once

#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Errors system.memory and system.resource, with a next step.
Diagnostic refused_memory();
Diagnostic refused_resource(const std::system_error& error);

// Runs `work`, which returns a Result or a Status; what the system refuses it becomes its error.
template <class Work>
std::invoke_result_t<Work> catch_refusals(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail(Diagnostics{refused_memory()});
  } catch (const std::system_error& error) {
    return fail(Diagnostics{refused_resource(error)});
  }
}

// Threads that are joined when the group ends.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { join(); }

  // Starts a thread for `work`, which must not throw. False where the system refuses one: then the
  // caller does with those that it has, or does the work itself.
  [[nodiscard]] bool start(std::function<void()> work);
  size_t size() const { return threads_.size(); }
  void join();

 private:
  std::vector<std::thread> threads_;
};

}  // namespace moec
