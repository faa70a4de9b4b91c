#include "models/plan/residency.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

// mlx-moe ships 208 slots for Qwen3-Coder-Next in 4 bits (46 GB) on a 32 GiB machine.
TEST(Residency, ReproducesThePublishedCase) {
  const double working_set = 0.75 * 32 * 1024 * 1024 * 1024;
  const ResidentSet set{.budget_bytes = static_cast<int64_t>(kResidentShare * working_set),
                        .base_bytes = 1'400'000'000,
                        .slot_bytes = 1'700'000,
                        .layers = 48,
                        .experts = 512};
  EXPECT_EQ(resident_capacity(set), 207);
}

TEST(Residency, StaysBetweenZeroAndAllExperts) {
  ResidentSet set{
      .budget_bytes = 100, .base_bytes = 100, .slot_bytes = 5, .layers = 2, .experts = 4};
  EXPECT_EQ(resident_capacity(set), 0);
  set.base_bytes = 200;
  EXPECT_EQ(resident_capacity(set), 0);
  set.base_bytes = 71;
  EXPECT_EQ(resident_capacity(set), 2);
  set.base_bytes = 0;
  EXPECT_EQ(resident_capacity(set), 4);
}

}  // namespace
}  // namespace moec
