#include "backends/cpu/thread_team.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace moec {
namespace {

using Work = std::function<void(int64_t begin, int64_t end)>;

// Spin iterations before a thread sleeps, 0.3 to 1 ms depending on the CPU. The ops between two
// products of a decode step take less time, and waking a thread takes about 50 µs.
constexpr int kRounds = 20000;

// Yields the core's execution units briefly to its other hardware thread.
void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Several parts per thread, so that a preempted thread delays only one part.
constexpr uint32_t kPartsPerThread = 4;

struct Division {
  int64_t count = 0, step = 1;
  uint32_t parts = 0;
  const Work* work = nullptr;
};

// Waits until the value differs from `old`, and returns the new value.
uint32_t wait_for_change(const std::atomic<uint32_t>& value, uint32_t old) {
  for (int round = 0; round < kRounds; ++round, pause())
    if (const uint32_t now = value.load(std::memory_order_acquire); now != old) return now;
  value.wait(old, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

struct ThreadTeam::Shared {
  std::mutex busy;  // held during a call of divide()
  // Read by threads that have claimed a part; unchanged until all parts are done.
  Division division;
  // Lower half: number of unclaimed parts. Upper half: number of the division, so that a late
  // thread's compare-exchange fails if its division has ended.
  std::atomic<uint64_t> unclaimed = 0;
  std::atomic<uint32_t> unfinished = 0;
  std::atomic<uint32_t> round = 0;  // incremented by each division
  std::atomic<bool> ends = false;
  std::vector<std::thread> workers;

  void begin(const Division& next) {
    division = next;
    unfinished.store(next.parts, std::memory_order_relaxed);
    const uint64_t number = round.load(std::memory_order_relaxed) + uint64_t{1};
    unclaimed.store(number << 32 | next.parts, std::memory_order_release);
    round.fetch_add(1, std::memory_order_acq_rel);
    round.notify_all();
  }

  // Claims a part and returns true; returns false if none is left.
  bool claim(uint32_t& part) {
    uint64_t left = unclaimed.load(std::memory_order_acquire);
    while (static_cast<uint32_t>(left) != 0)
      if (unclaimed.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel)) {
        part = static_cast<uint32_t>(left) - 1;
        return true;
      }
    return false;
  }

  void work() {
    for (uint32_t part = 0; claim(part);) {
      const int64_t steps = (division.count + division.step - 1) / division.step;
      const int64_t begin = steps * part / division.parts * division.step;
      const int64_t end = steps * (part + 1) / division.parts * division.step;
      if (begin < division.count) (*division.work)(begin, std::min(end, division.count));
      if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished.notify_one();
    }
  }

  void serve() {
    for (uint32_t seen = 0; !ends;) {
      work();
      seen = wait_for_change(round, seen);
    }
  }
};

ThreadTeam::ThreadTeam(int threads)
    : threads_(std::max(threads, 1)), shared_(std::make_unique<Shared>()) {
  for (int thread = 1; thread < threads_; ++thread)
    shared_->workers.emplace_back([this] { shared_->serve(); });
}

ThreadTeam::~ThreadTeam() {
  shared_->ends = true;
  shared_->round.fetch_add(1, std::memory_order_acq_rel);
  shared_->round.notify_all();
  for (std::thread& worker : shared_->workers) worker.join();
}

void ThreadTeam::divide(int64_t count, int64_t step, const Work& work) {
  const std::unique_lock lock(shared_->busy, std::try_to_lock);
  if (threads_ == 1 || count <= step || !lock) return work(0, count);
  const int64_t steps = (count + step - 1) / step;
  const auto parts =
      static_cast<uint32_t>(std::min<int64_t>(steps, int64_t{kPartsPerThread} * threads_));
  shared_->begin({count, step, parts, &work});
  shared_->work();
  for (uint32_t left = shared_->unfinished.load(std::memory_order_acquire); left != 0;)
    left = wait_for_change(shared_->unfinished, left);
}

}  // namespace moec
