#include "backends/cpu/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace moec {
namespace {

// Calls divide() and counts how often each index is covered.
void expect_each_once(ThreadTeam& team, int64_t count, int64_t step) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
  team.divide(count, step, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin % step, 0);
    for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] += 1;
  });
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(seen[static_cast<size_t>(i)], 1) << i;
}

TEST(ThreadTeam, CoversEachIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadTeam team(threads);
    for (const int64_t count : {1, 15, 16, 17, 100, 1000})
      for (const int64_t step : {1, 16}) expect_each_once(team, count, step);
  }
}

TEST(ThreadTeam, RunsManyConsecutiveDivisions) {
  ThreadTeam team(4);
  for (int round = 0; round < 2000; ++round) expect_each_once(team, 64, 1);
}

// Each part waits until all parts have begun, which a single thread cannot achieve. The time limit
// only ends a failing test.
TEST(ThreadTeam, RunsPartsOnSeveralThreads) {
  for (const int threads : {2, 3}) {
    ThreadTeam team(threads);
    std::mutex mutex;
    std::condition_variable changed;
    std::set<std::thread::id> ids;
    int begun = 0;
    team.divide(threads, 1, [&](int64_t, int64_t) {
      std::unique_lock lock(mutex);
      ids.insert(std::this_thread::get_id());
      ++begun;
      changed.notify_all();
      changed.wait_for(lock, std::chrono::seconds(60), [&] { return begun == threads; });
    });
    EXPECT_EQ(std::ssize(ids), threads);
  }
}

TEST(ThreadTeam, AcceptsConcurrentCallers) {
  ThreadTeam team(3);
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) expect_each_once(team, 50, 1);
    });
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadTeam, ClampsZeroThreadsToOne) { EXPECT_EQ(ThreadTeam(0).threads(), 1); }

}  // namespace
}  // namespace moec
