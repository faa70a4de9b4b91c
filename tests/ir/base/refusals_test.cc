#include "ir/base/refusals.h"

#include <gmock/gmock.h>

#include <atomic>

namespace moec {
namespace {

TEST(Refusals, TurnsExceptionsIntoErrors) {
  const auto memory = catch_refusals([]() -> Result<int> { throw std::bad_alloc(); });
  ASSERT_FALSE(memory);
  EXPECT_EQ(memory.error().front().code, "system.memory");
  EXPECT_FALSE(memory.error().front().next_step.empty());
  const auto thread = catch_refusals([]() -> Status {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  ASSERT_FALSE(thread);
  EXPECT_EQ(thread.error().front().code, "system.resource");
  EXPECT_THAT(thread.error().front().cause, testing::HasSubstr("temporarily unavailable"));
}

TEST(Refusals, ForwardsResults) {
  EXPECT_EQ(catch_refusals([]() -> Result<int> { return 7; }).value(), 7);
  EXPECT_EQ(catch_refusals([]() -> Status { return fail("a.b", "c"); }).error().front().code,
            "a.b");
}

TEST(ThreadGroup, JoinsItsThreads) {
  std::atomic<int> done{0};
  {
    ThreadGroup group;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(group.start([&] { ++done; }));
    EXPECT_EQ(group.size(), 3u);
  }
  EXPECT_EQ(done, 3);
}

}  // namespace
}  // namespace moec
