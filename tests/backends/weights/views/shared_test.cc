// Reads views once for several consumers ("sides").
#include <gmock/gmock.h>

#include <algorithm>
#include <thread>

#include "backends/weights/views/shared_views.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

using testing::Each;
using testing::ElementsAre;

// ---- Order -------------------------------------------------------------------------------------

using List = std::vector<std::string>;

size_t common_length(const List& a, const List& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j < b.size(); ++j)
      best[i + 1][j + 1] = a[i] == b[j] ? best[i][j] + 1 : std::max(best[i][j + 1], best[i + 1][j]);
  return best[a.size()][b.size()];
}

// Returns the views of one side, in step order.
List list_of(const std::vector<SharedStep>& steps, size_t side) {
  List list;
  for (const SharedStep& step : steps)
    if (std::count(step.sides.begin(), step.sides.end(), side) == 1) list.push_back(step.view);
  return list;
}

TEST(MatchViews, KeepsOrderAndSharesMaximally) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<List> lists(1 + random() % 3);
    for (List& list : lists)
      for (size_t n = random() % 12; n > 0; --n)
        list.emplace_back(1, static_cast<char>('a' + random() % 7));
    const auto steps = match_views(lists);
    for (size_t side = 0; side < lists.size(); ++side) EXPECT_EQ(list_of(steps, side), lists[side]);
    for (const SharedStep& step : steps)
      EXPECT_TRUE(std::is_sorted(step.sides.begin(), step.sides.end()));
    if (lists.size() != 2) continue;
    EXPECT_EQ(steps.size(), lists[0].size() + lists[1].size() - common_length(lists[0], lists[1]));
  }
}

// ---- Delivery ----------------------------------------------------------------------------------

constexpr int64_t kElements = 5000;
const Type kType{DType::bf16, {kElements}};
constexpr uint64_t kTensorBytes = 2 * kElements;
constexpr size_t kTile = 4096;
const std::string kNames = "abcdefgh";

// The views that a side requests, cast to f16 (one letter per tensor), and the behaviour of its
// sink.
struct Ask {
  std::string announced;
  std::vector<std::string> series;  // if empty, one series of all announced views
  int fails_at = 0;                 // tile at which the sink fails, or 0 for never
};

struct Got {
  std::vector<Bytes> views;
  StreamReport report;
  std::string error;  // diagnostic code
  bool operator==(const Got& other) const { return views == other.views && error == other.error; }
};

class SharedDelivery : public testing::TestWithParam<uint64_t> {
 protected:
  SharedDelivery() {
    std::vector<uint16_t> values(kNames.size() * kElements);
    std::mt19937 random(7);
    for (uint16_t& value : values) value = static_cast<uint16_t>(random());
    path_ = write_file("shared.bin", bytes_of(values));
    table_ = table_of(path_, 2 * values.size(), kType);
    for (size_t i = 0; i < kNames.size(); ++i)
      table_.tensors[kNames.substr(i, 1)] = {0, i * kTensorBytes, kType};
  }

  static WeightView view_of(char name) {
    return then(tensor_view(std::string(1, name), kType), CastStep{DType::f16});
  }
  static std::vector<WeightView> views_of(const std::string& names) {
    std::vector<WeightView> views;
    for (const char name : names) views.push_back(view_of(name));
    return views;
  }
  WeightReader open() const { return WeightReader::open(table_, {.readers = GetParam()}).value(); }

  // Stops at the first failure, as an export does.
  static Got take(const WeightReader& reader, const Ask& asks) {
    Got got;
    int tiles = 0;
    const auto collect = [&](std::span<const std::byte> tile) -> Status {
      if (++tiles == asks.fails_at) return fail("test.no_space", "no space");
      got.views.back().insert(got.views.back().end(), tile.begin(), tile.end());
      return {};
    };
    for (const std::string& names :
         asks.series.empty() ? std::vector{asks.announced} : asks.series) {
      ViewSeries series = reader.series(views_of(names), kTile).value();
      for (size_t i = 0; i < names.size(); ++i) {
        got.views.emplace_back();
        const Status status = series.next(collect, got.report);
        if (status) continue;
        got.error = code_of(status.error());
        return got;
      }
    }
    return got;
  }

  std::vector<Got> take_together(const std::vector<Ask>& asks) const {
    std::vector<WeightReader> own;
    for (size_t i = 0; i < asks.size(); ++i) own.push_back(open());
    std::vector<SharedViews::Side> sides;
    for (size_t i = 0; i < asks.size(); ++i)
      sides.push_back({&own[i], views_of(asks[i].announced)});
    SharedViews shared(std::move(sides));
    std::vector<Got> got(asks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < asks.size(); ++i)
      threads.emplace_back([&, i] {
        got[i] = take(shared.reader(i), asks[i]);
        shared.leave(i);
      });
    for (std::thread& thread : threads) thread.join();
    return got;
  }

  // Returns the number of tensors that each side read. Checks that each side received the same
  // bytes as it does alone.
  std::vector<uint64_t> tensors_read(const std::vector<Ask>& asks) const {
    std::vector<uint64_t> read;
    const std::vector<Got> got = take_together(asks);
    for (size_t i = 0; i < asks.size(); ++i) {
      const Got alone = take(open(), asks[i]);
      EXPECT_EQ(got[i] == alone, true) << "side " << i;
      EXPECT_EQ(got[i].report.overflows, alone.report.overflows);
      EXPECT_EQ(got[i].report.nonfinite, alone.report.nonfinite);
      EXPECT_EQ(got[i].report.elements, alone.report.elements);
      EXPECT_EQ(got[i].report.bytes_read % kTensorBytes, 0u);
      read.push_back(got[i].report.bytes_read / kTensorBytes);
    }
    return read;
  }

  std::string path_;
  WeightTable table_;
};

TEST_P(SharedDelivery, ReadsEqualViewsOnce) {
  EXPECT_THAT(tensors_read({{"abcdefgh"}, {"abcdefgh"}}), ElementsAre(8, 0));
}

TEST_P(SharedDelivery, ReadsReorderedViewsSeparately) {
  EXPECT_THAT(tensors_read({{"abcd"}, {"dabc"}}), ElementsAre(4, 1));
  EXPECT_THAT(tensors_read({{"abc"}, {"defgh"}}), ElementsAre(3, 5));
  EXPECT_THAT(tensors_read({{"cdefgh"}, {"ahbcf"}}), ElementsAre(6, 3));
  EXPECT_THAT(tensors_read({{""}, {"ab"}}), ElementsAre(0, 2));
}

TEST_P(SharedDelivery, AcceptsSeveralSeriesPerSide) {
  EXPECT_THAT(tensors_read({{"abcdef"}, {"abacadef", {"ab", "ac", "adef"}}}), ElementsAre(6, 2));
  EXPECT_THAT(tensors_read({{"abacadef", {"ab", "ac", "adef"}}, {"abcdef", {"abc", "def"}}}),
              ElementsAre(8, 0));
}

TEST_P(SharedDelivery, SharesBetweenThreeSides) {
  EXPECT_THAT(tensors_read({{"abcdef"}, {"bcdefg"}, {"acegh"}}), ElementsAre(6, 1, 1));
  EXPECT_THAT(tensors_read({{"ab"}, {"cdef"}, {"cdef"}}), ElementsAre(2, 4, 0));
}

TEST_P(SharedDelivery, ReadsUnannouncedViewsSeparately) {
  EXPECT_THAT(tensors_read({{"abc"}, {"abc", {"gh", "abc"}}}), ElementsAre(3, 2));
}

TEST_P(SharedDelivery, SkipsFinishedSides) {
  const Ask all{"abcdef"}, some{"abcdef", {"ab"}}, none{"abcdef", {""}};
  EXPECT_THAT(tensors_read({all, some}), ElementsAre(6, 0));
  EXPECT_THAT(tensors_read({some, all}), ElementsAre(2, 4));
  EXPECT_THAT(tensors_read({none, all}), ElementsAre(0, 6));
  EXPECT_THAT(tensors_read({all, none}), ElementsAre(6, 0));
  EXPECT_THAT(tensors_read({some, all, all}), ElementsAre(2, 4, 4));
}

TEST_P(SharedDelivery, StopsOnlyTheFailingSide) {
  const Ask all{"abcdef"}, full{"abcdef", {}, 5};
  for (const std::vector<Ask>& asks :
       {std::vector{all, full}, std::vector{full, all}, std::vector{full, all, all},
        std::vector{all, full, all}, std::vector{full, full}}) {
    const std::vector<Got> got = take_together(asks);
    for (size_t i = 0; i < asks.size(); ++i)
      EXPECT_EQ(got[i] == take(open(), asks[i]), true) << "side " << i << " " << got[i].error;
  }
}

TEST_P(SharedDelivery, StopsAllSidesIfReadingFails) {
  const WeightReader one = open(), two = open();
  SharedViews shared({{&one, views_of("ab")}, {&two, views_of("ab")}});
  std::filesystem::resize_file(path_, 1000);
  std::vector<std::string> errors(2);
  const auto run = [&](size_t side) {
    errors[side] = take(shared.reader(side), {"ab"}).error;
    shared.leave(side);
  };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_THAT(errors, Each("weights.file_changed"));
}

INSTANTIATE_TEST_SUITE_P(Readers, SharedDelivery, testing::Values(1, 4));

}  // namespace
}  // namespace moec
