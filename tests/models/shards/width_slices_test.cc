#include "models/shards/width_slices.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::ElementsAre;

TEST(BalancedParts, DifferByAtMostOne) {
  EXPECT_THAT(balanced_parts(11, 3), ElementsAre(4, 4, 3));
  EXPECT_THAT(balanced_parts(6, 3), ElementsAre(2, 2, 2));
  EXPECT_THAT(balanced_parts(5, 1), ElementsAre(5));
}

TEST(SliceWidths, AreWholeBlocksOfChannels) {
  EXPECT_THAT(slice_widths(14336, 2), ElementsAre(7168, 7168));
  EXPECT_THAT(slice_widths(20480, 3), ElementsAre(6848, 6848, 6784));
}

TEST(SliceWidths, UseSmallerBlocksForThinSlices) {
  EXPECT_THAT(slice_widths(128, 3), ElementsAre(44, 44, 40));
  EXPECT_THAT(slice_widths(96, 2), ElementsAre(48, 48));
  EXPECT_THAT(slice_widths(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(slice_widths(4, 4), ElementsAre(1, 1, 1, 1));
}

TEST(SliceOf, TilesTheWidth) {
  ShardDecl shard;
  EXPECT_EQ(slice_of(shard, 7), (WidthSlice{0, 7}));
  shard.slices = 3;
  EXPECT_EQ(slice_of(shard, 7), (WidthSlice{0, 3}));
  shard.slice = 2;
  EXPECT_EQ(slice_of(shard, 7), (WidthSlice{5, 2}));
}

}  // namespace
}  // namespace moec
