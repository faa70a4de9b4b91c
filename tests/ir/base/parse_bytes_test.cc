#include <gtest/gtest.h>

#include "ir/base/parse_number.h"

namespace moec {
namespace {

TEST(ParseBytes, AcceptsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_bytes("17179869184"), 17179869184);
  EXPECT_EQ(parse_bytes("16GiB"), 17179869184);
  EXPECT_EQ(parse_bytes("25.8 GB"), 25800000000);
  EXPECT_EQ(parse_bytes("1.5kB"), 1500);
  EXPECT_EQ(parse_bytes("3 B"), 3);
}

TEST(ParseBytes, RejectsMalformedSizes) {
  for (const char* text : {"", "GB", "-1GB", "0", "0.5", "1e19", "1 XB", "1GBGB", "inf", "nan"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

}  // namespace
}  // namespace moec
