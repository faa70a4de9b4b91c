#include "ir/graph/port_names.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

TEST(PortNames, TellCachesFromOtherInputs) {
  for (const char* name : {kKeyState, kValueState, kHistoryPort, kRecurrentState, "k_state_L03"})
    EXPECT_TRUE(is_cache_input(name)) << name;
  for (const char* name : {kResidualPort, kMaskPort, kWriteMaskPort, kTokenMaskPort, kNewKeys})
    EXPECT_FALSE(is_cache_input(name)) << name;
}

}  // namespace
}  // namespace moec
