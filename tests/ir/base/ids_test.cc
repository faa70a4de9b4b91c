#include "ir/base/ids.h"

#include <gtest/gtest.h>

#include <string>

namespace moec {
namespace {

TEST(Id, IsInvalidUntilSet) {
  EXPECT_FALSE(ValueId{}.valid());
  EXPECT_TRUE(ValueId{0}.valid());
  EXPECT_LT(ValueId{1}, ValueId{2});
  EXPECT_EQ(ValueId{1}, ValueId{1});
}

TEST(IdVector, AssignsIdsInOrder) {
  IdVector<ValueId, std::string> table;
  const ValueId a = table.push("a"), b = table.push("b");
  EXPECT_EQ(a.index, 0u);
  EXPECT_EQ(b.index, 1u);
  EXPECT_EQ(table[b], "b");
  table[b] = "c";
  EXPECT_EQ(table[b], "c");
  EXPECT_EQ(table.size(), 2u);
  EXPECT_TRUE(table.contains(b));
  EXPECT_FALSE(table.contains(ValueId{2}));
  EXPECT_FALSE(table.contains(ValueId{}));
}

TEST(IdMap, ReturnsTheDefaultForUnsetIds) {
  IdMap<ValueId, int> map(1, 7);
  const IdMap<ValueId, int>& read = map;
  EXPECT_EQ(read[ValueId{0}], 7);
  EXPECT_EQ(read[ValueId{100}], 7);
  EXPECT_EQ(read[ValueId{}], 7);
  map[ValueId{5}] = 3;
  EXPECT_EQ(read[ValueId{5}], 3);
  EXPECT_EQ(read[ValueId{4}], 7);
  EXPECT_EQ(read[ValueId{6}], 7);
}

}  // namespace
}  // namespace moec
