// Handles memory and threads that the system refuses, for example under ulimit or in a small
// container. A refusal becomes an error or reduces parallelism; it never crashes the process.
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

// Return the errors system.memory and system.resource, with a next step.
Diagnostic refused_memory();
Diagnostic refused_resource(const std::system_error& error);

// Runs `work`, which returns a Result or a Status. Converts std::bad_alloc and std::system_error to
// an error of the result.
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

// A group of threads. The destructor joins them.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { join(); }

  // Starts a thread for `work`, which must not throw. Returns false if the system refuses a thread;
  // the caller then continues with fewer threads or does the work itself.
  [[nodiscard]] bool start(std::function<void()> work);
  size_t size() const { return threads_.size(); }
  void join();

 private:
  std::vector<std::thread> threads_;
};

}  // namespace moec
