#include "ir/base/byte_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace moec {
namespace {

TEST(ByteText, UsesDecimalUnits) {
  EXPECT_EQ(decimal_bytes(0), "0 B");
  EXPECT_EQ(decimal_bytes(999), "999 B");
  EXPECT_EQ(decimal_bytes(1000), "1.0 kB");
  EXPECT_EQ(decimal_bytes(1 << 20), "1.0 MB");
  EXPECT_EQ(decimal_bytes(uint64_t{30860548096}), "30.9 GB");
  EXPECT_EQ(decimal_bytes(2.5e15), "2500.0 TB");
}

}  // namespace
}  // namespace moec
