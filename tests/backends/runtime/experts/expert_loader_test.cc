#include "backends/runtime/experts/expert_loader.h"

#include <gmock/gmock.h>

#include <cstring>
#include <future>

#include "backends/runtime/experts/prefetch_depth.h"
#include "backends/runtime/experts/slot_arena.h"
#include "tests/files.h"
#include "tests/page_cache.h"

namespace moec {
namespace {

using testing::ElementsAre;

constexpr uint64_t kBlock = PayloadFile::kBlockBytes;
constexpr uint64_t kSlot = 4 * kBlock, kLong = 2 << 20;

// A file of numbered bytes, slots, and a record of the calls that a loader makes.
class Loader : public testing::Test {
 protected:
  struct Call {
    uint64_t begin = 0, end = 0;
    size_t pieces = 0;
    bool operator==(const Call&) const = default;
  };

  static char byte_at(uint64_t offset) {
    return static_cast<char>(offset * 7 + offset / kBlock * 31);
  }

  void SetUp() override {
    std::string bytes(kBytes, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(i);
    write_file(path_, bytes);
    forget(path_);
    file_.emplace(PayloadFile::open({path_, bytes.size()}).value());
    arena_ = SlotArena::create(kBytes).value();
  }

  ReadCall recorded() {
    return [this](const PayloadFile& file, std::span<const PayloadFile::Piece> pieces) {
      {
        const std::lock_guard lock(mutex_);
        calls_.push_back({pieces.front().begin, pieces.back().end, pieces.size()});
      }
      return file.read_pieces(pieces);
    };
  }

  std::byte* slot(size_t index) const { return arena_.data() + index * kSlot; }

  SlotLoad load_of(const std::vector<ExtentRead>& reads) {
    const auto promise = std::make_shared<std::promise<Status>>();
    done_.push_back(promise->get_future());
    return {reads, [promise](Status status) { promise->set_value(std::move(status)); }};
  }
  SlotLoad load_of(uint64_t begin, uint64_t end, size_t slot_index) {
    return load_of({{&*file_, begin, end, slot(slot_index)}});
  }

  // Waits for all loads, and succeeds if they did.
  void expect_done() {
    for (auto& done : done_) {
      const Status status = done.get();
      EXPECT_TRUE(status) << render(status.error());
    }
    done_.clear();
  }

  void expect_bytes(uint64_t begin, uint64_t end, size_t slot_index) const {
    const std::byte* from = slot(slot_index) + begin % kBlock;
    for (uint64_t i = begin; i < end; ++i)
      ASSERT_EQ(static_cast<char>(from[i - begin]), byte_at(i)) << "byte " << i;
  }

  static constexpr uint64_t kBytes = (uint64_t{4} << 20) + 123;
  std::string path_ = testing::TempDir() + running_test() + ".bytes";
  std::optional<PayloadFile> file_;
  SlotArena arena_;
  std::mutex mutex_;
  std::vector<Call> calls_;
  std::vector<std::future<Status>> done_;
};

TEST_F(Loader, ReadsNeighboursInOneCall) {
  ExpertLoader loader(1, recorded());
  // The second expert begins in the last block of the first one, the third one at a block, the
  // fourth one after padding, and the fifth one lies apart.
  const std::vector<std::pair<uint64_t, uint64_t>> experts = {{100, 5000},
                                                              {5000, 3 * kBlock},
                                                              {3 * kBlock, 4 * kBlock + 1},
                                                              {21 * kBlock, 22 * kBlock},
                                                              {39 * kBlock, 39 * kBlock + 50}};
  std::vector<SlotLoad> loads;
  for (size_t i = 0; i < experts.size(); ++i)
    loads.push_back(load_of(experts[i].first, experts[i].second, i));
  EXPECT_EQ(loader.load(std::move(loads), 0), 2u);
  expect_done();
  EXPECT_THAT(calls_,
              ElementsAre(Call{100, 22 * kBlock, 4}, Call{39 * kBlock, 39 * kBlock + 50, 1}));
  for (size_t i = 0; i < experts.size(); ++i) expect_bytes(experts[i].first, experts[i].second, i);
}

TEST_F(Loader, ReadsBytesOfThePageCache) {
  ASSERT_EQ(read_file(path_).size(), kBytes);  // fills the page cache
  ExpertLoader loader(1, recorded());
  std::vector<SlotLoad> loads;
  loads.push_back(load_of(100, 5000, 0));
  loads.push_back(load_of(39 * kBlock, 39 * kBlock + 50, 1));
  loader.load(std::move(loads), 0);
  expect_done();
  expect_bytes(100, 5000, 0);
  expect_bytes(39 * kBlock, 39 * kBlock + 50, 1);
}

TEST_F(Loader, SharesOneBlockAmongManyExperts) {
  ExpertLoader loader(1, recorded());
  std::vector<SlotLoad> loads;
  for (uint64_t i = 0; i < 40; ++i)
    loads.push_back(load_of(kBlock - 1000 + i * 150, kBlock - 1000 + i * 150 + 140, i));
  EXPECT_EQ(loader.load(std::move(loads), 0), 1u);
  expect_done();
  for (uint64_t i = 0; i < 40; ++i)
    expect_bytes(kBlock - 1000 + i * 150, kBlock - 1000 + i * 150 + 140, i);
}

TEST_F(Loader, SplitsLongReads) {
  ExpertLoader loader(2, recorded());
  std::vector<SlotLoad> loads;
  loads.push_back(load_of(100, kLong, 0));
  EXPECT_EQ(loader.load(std::move(loads), 0), 2u);
  expect_done();
  expect_bytes(100, kLong, 0);
}

TEST_F(Loader, ReadsTheEndOfAFile) {
  ExpertLoader loader(1, recorded());
  std::vector<SlotLoad> loads;
  loads.push_back(load_of(kBytes - 300, kBytes - 200, 0));
  loads.push_back(load_of(kBytes - 200, kBytes, 1));
  EXPECT_EQ(loader.load(std::move(loads), 0), 1u);
  expect_done();
  expect_bytes(kBytes - 300, kBytes - 200, 0);
  expect_bytes(kBytes - 200, kBytes, 1);
}

TEST_F(Loader, ReadsLowerTurnsFirst) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::vector<uint64_t> order;
  ExpertLoader loader(1, [&](const PayloadFile&, std::span<const PayloadFile::Piece> pieces) {
    gone.wait();
    order.push_back(pieces.front().begin / kBlock);
    return Status();
  });
  // The only thread takes the first read and waits, while the others are queued.
  for (const auto& [block, turn] :
       std::vector<std::pair<uint64_t, uint64_t>>{{0, 0}, {12, 3}, {9, 2}, {3, 1}, {6, 1}}) {
    std::vector<SlotLoad> loads;
    loads.push_back(load_of(block * kBlock, (block + 1) * kBlock, block));
    loader.load(std::move(loads), turn);
  }
  go.set_value();
  expect_done();
  EXPECT_THAT(order, ElementsAre(0, 3, 6, 9, 12));
}

TEST_F(Loader, ReportsErrorsOfSharedCalls) {
  ExpertLoader loader(1, [](const PayloadFile&, std::span<const PayloadFile::Piece>) -> Status {
    return fail("weights.read", "no disk", "");
  });
  std::vector<SlotLoad> loads;
  loads.push_back(load_of(0, 100, 0));
  loads.push_back(load_of(100, 200, 1));
  EXPECT_EQ(loader.load(std::move(loads), 0), 1u);
  for (auto& done : done_) EXPECT_FALSE(done.get());
}

TEST(PrefetchDepth, DropsDistancesInVain) {
  PrefetchDepth depth;
  EXPECT_EQ(depth.depth(), PrefetchDepth::kMost);
  for (int i = 0; i < 32; ++i) {
    depth.note(1, i % 4 == 0);
    depth.note(2, i % 2 == 0);
    depth.note(3, i % 3 == 0);
  }
  EXPECT_EQ(depth.depth(), 2u) << "the next layer is always prefetched";
  for (int i = 0; i < 8; ++i) depth.note(2, false);
  EXPECT_EQ(depth.depth(), 1u);
}

TEST(PrefetchDepth, TriesDroppedDistancesAgain) {
  PrefetchDepth depth;
  for (int i = 0; i < 20; ++i) depth.note(2, false);
  EXPECT_EQ(depth.depth(), 1u);
  for (int step = 0; step < 32; ++step) depth.end_step();
  EXPECT_EQ(depth.depth(), PrefetchDepth::kMost);
}

}  // namespace
}  // namespace moec
