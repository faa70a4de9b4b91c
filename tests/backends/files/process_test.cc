#include "backends/files/process.h"

#include <gtest/gtest.h>

#include <csignal>
#include <new>

#include "backends/files/stop_signals.h"

namespace moec {
namespace {

TEST(Process, RecordsTheFirstSignal) {
  const StopSignals signals;
  EXPECT_EQ(StopSignals::caught(), 0);
  std::raise(SIGTERM);
  EXPECT_EQ(StopSignals::caught(), SIGTERM);
}

TEST(Process, ExitsOnASecondSignal) {
  EXPECT_EXIT(
      {
        const StopSignals signals;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(Process, ReportsOutOfMemoryWithoutAllocating) {
  EXPECT_EXIT(
      {
        end_without_memory({"no memory is left", 2, 7});
        std::get_new_handler()();
      },
      testing::ExitedWithCode(7), "no memory is left");
}

}  // namespace
}  // namespace moec
