#include "ir/base/enum_table.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace moec {
namespace {

enum class Season : uint8_t { spring, summer, autumn, winter };
constexpr auto enum_names(Season) {
  return name_table<Season>({"spring", "summer", "autumn", "winter"});
}
enum class Single { only };
enum class Empty {};

TEST(EnumTable, CountsEnumerators) {
  EXPECT_EQ(enum_count<Season>, 4);
  EXPECT_EQ(enum_count<Single>, 1);
  EXPECT_EQ(enum_count<Empty>, 0);
}

TEST(EnumTable, OrdersEntriesByEnumerator) {
  constexpr auto kDays = enum_table<Season, int>({92, 94, 90, 89});
  static_assert(kDays.size() == enum_count<Season>);
  EXPECT_EQ(at(kDays, Season::autumn), 90);
}

TEST(EnumTable, RoundTripsNamesAndEnumerators) {
  for (size_t i = 0; i < enum_count<Season>; ++i)
    EXPECT_EQ(parse_enum<Season>(enum_name(static_cast<Season>(i))), static_cast<Season>(i));
  EXPECT_EQ(enum_name(Season::winter), "winter");
  EXPECT_EQ(parse_enum<Season>("Winter"), std::nullopt);
  EXPECT_EQ(parse_enum<Season>(""), std::nullopt);
}

}  // namespace
}  // namespace moec
