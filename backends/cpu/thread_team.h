// A thread pool that divides the work of one product at a time. Between products, its threads spin
// briefly before they sleep, because the next product usually follows immediately.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace moec {

class ThreadTeam {
 public:
  // `threads` includes the calling thread; values below 1 mean 1.
  explicit ThreadTeam(int threads);
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;
  ~ThreadTeam();

  int threads() const { return threads_; }

  // Calls work(begin, end) for disjoint ranges that cover [0, count), several per thread, and
  // returns when all of them are done. Ranges begin at multiples of `step`. If another thread's
  // call is in progress, the caller does all of the work itself.
  void divide(int64_t count, int64_t step,
              const std::function<void(int64_t begin, int64_t end)>& work);

 private:
  struct Shared;
  int threads_;
  std::unique_ptr<Shared> shared_;
};

}  // namespace moec
