// Streams with several readers, with reads that bypass the page cache, and within a memory budget.
#include <fcntl.h>

#include <filesystem>

#include "backends/weights/views/weight_reader.h"
#include "tests/backends/weights/views/testing.h"
#include "tests/page_cache.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStreamRows = 1500, kStreamColumns = 1001;
const Type kMatrix{DType::bf16, {kStreamRows, kStreamColumns}};
constexpr uint64_t kHead = 1234;  // places the tensor off disk block boundaries

// A payload with NaNs and with values that overflow f16.
Bytes payload() {
  std::vector<uint16_t> values(static_cast<size_t>(kStreamRows * kStreamColumns) + kHead / 2);
  std::mt19937 random(7);
  for (uint16_t& value : values) value = static_cast<uint16_t>(random());
  return bytes_of(values);
}

struct Streamed {
  Bytes bytes;
  StreamReport report;
};

class WeightsStream : public testing::Test {
 protected:
  WeightsStream() {
    table_ = table_of(write_file("stream.bin", payload()), kHead + kMatrix.bytes(), kMatrix);
    table_.tensors["w"].offset = kHead;
  }

  WeightReader reader(ReaderOptions options) const {
    return WeightReader::open(table_, options).value();
  }
  Streamed stream(const WeightView& view, ReaderOptions options, size_t tile_bytes) const {
    Streamed streamed;
    streamed.bytes =
        stream_all(reader(options), view, tile_bytes, streamed.report).value_or(Bytes{});
    return streamed;
  }

  WeightTable table_;
  const WeightView as_f16_ = then(tensor_view("w", kMatrix), CastStep{DType::f16});
};

void expect_same(const Streamed& one, const Streamed& other) {
  EXPECT_FALSE(one.bytes.empty());
  EXPECT_EQ(one.bytes == other.bytes, true);
  EXPECT_EQ(one.report.elements, other.report.elements);
  EXPECT_EQ(one.report.overflows, other.report.overflows);
  EXPECT_EQ(one.report.nonfinite, other.report.nonfinite);
  EXPECT_EQ(one.report.bytes_read, other.report.bytes_read);
}

TEST_F(WeightsStream, StreamsEquallyForAnyReaderCount) {
  const Streamed one = stream(as_f16_, {}, 64 << 10);
  EXPECT_GT(one.report.overflows, 0u);
  EXPECT_GT(one.report.nonfinite, 0u);
  for (uint64_t readers : {2, 3, 8, 100})
    expect_same(stream(as_f16_, {.readers = readers}, 64 << 10), one);
  const WeightView turned = then(as_f16_, PermuteStep{{1, 0}});
  expect_same(stream(turned, {.gather_bytes = 200000, .readers = 4}, 1000),
              stream(turned, {.gather_bytes = 200000}, 1000));
}

TEST_F(WeightsStream, StreamsEqualBytesWithoutPageCache) {
  const Streamed through = stream(as_f16_, {}, 300 << 10);
  for (size_t tile : {size_t{300} << 10, size_t{1} << 20, size_t{64} << 20})
    for (uint64_t readers : {1, 4})
      for (off_t forgotten :
           {0, 1 << 20, 16 << 20}) {  // evicts nothing, a part, or all of the file
        forget(table_.files[0].path, forgotten == 0 ? 1 : forgotten);
        expect_same(stream(as_f16_, {.readers = readers, .past_cache = true}, tile), through);
      }
}

TEST_F(WeightsStream, ReadsFromTmpfs) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "this machine has no /dev/shm";
  const Streamed on_disk = stream(as_f16_, {}, 300 << 10);
  const std::string copy = "/dev/shm/moec_stream_" + std::to_string(::getpid());
  fs::copy_file(table_.files[0].path, copy);
  table_.files[0].path = copy;
  expect_same(stream(as_f16_, {.readers = 2, .past_cache = true}, 300 << 10), on_disk);
  fs::remove(copy);
}

// ---- Series ------------------------------------------------------------------------------------

TEST_F(WeightsStream, StreamsASeriesLikeItsViews) {
  std::vector<WeightView> views = {
      as_f16_, then(as_f16_, PermuteStep{{1, 0}}), then(as_f16_, SliceStep{0, 700, 1}),
      splat_view(0.5, {DType::f32, {3}}), then(tensor_view("w", kMatrix), SliceStep{1, 3, 900})};
  for (uint64_t number_of_readers : {1, 4}) {
    const WeightReader weights = reader({.readers = number_of_readers});
    ViewSeries series = weights.series(views, 100 << 10).value();
    for (const WeightView& view : views) {
      Streamed next;
      const auto collect = [&](std::span<const std::byte> tile) -> Status {
        next.bytes.insert(next.bytes.end(), tile.begin(), tile.end());
        return {};
      };
      ASSERT_TRUE(series.next(collect, next.report));
      expect_same(next, stream(view, {}, 100 << 10));
    }
  }
}

TEST_F(WeightsStream, NamesTheFailingTensor) {
  table_.tensors["cut"] = {0, table_.files[0].bytes - 4, kMatrix};
  for (uint64_t number_of_readers : {1, 4}) {
    const WeightReader weights = reader({.readers = number_of_readers});
    const WeightView beyond = tensor_view("cut", kMatrix);
    const auto refused = weights.series({as_f16_, beyond});
    ASSERT_FALSE(refused);
    EXPECT_EQ(code_of(refused.error()), "weights.out_of_range");
    EXPECT_EQ(refused.error()[0].place.tensor, "cut");
  }
}

TEST_F(WeightsStream, StopsReadersIfASinkFails) {
  StreamReport report;
  int calls = 0;
  const auto full = [&](std::span<const std::byte>) -> Status {
    return ++calls == 3 ? Status(fail("test.no_space", "no space")) : Status();
  };
  const Status status = reader({.readers = 4}).stream(as_f16_, 4096, full, report);
  ASSERT_FALSE(status);
  EXPECT_EQ(code_of(status.error()), "test.no_space");
  EXPECT_EQ(status.error()[0].place.tensor, "");  // the sink's failure names no tensor
  EXPECT_EQ(calls, 3);
}

TEST_F(WeightsStream, DetectsShrinkingFilesInAllReaders) {
  for (bool past_cache : {false, true}) {
    const std::string path = write_file("shrinks_wide.bin", Bytes(16 << 20));
    const Type type{DType::u8, {16 << 20}};
    auto reader = WeightReader::open(table_of(path, 16 << 20, type),
                                     {.readers = 4, .past_cache = past_cache});
    StreamReport report;
    const auto shrink = [&](std::span<const std::byte>) -> Status {
      fs::resize_file(path, 1000);
      return {};
    };
    const Status status = reader->stream(tensor_view("w", type), 256 << 10, shrink, report);
    ASSERT_FALSE(status);
    EXPECT_EQ(code_of(status.error()), "weights.file_changed");
    EXPECT_EQ(status.error()[0].place.tensor, "w");
    EXPECT_EQ(status.error()[0].place.file, path);
  }
}

// ---- The budget --------------------------------------------------------------------------------

TEST_F(WeightsStream, UsesSmallerBlocksForSmallBudgets) {
  const WeightView turned = then(as_f16_, PermuteStep{{1, 0}});
  const Streamed roomy = stream(turned, {}, 1 << 20);
  EXPECT_GT(roomy.report.peak_scratch, uint64_t{3} << 20);
  const ReaderOptions tight{.band_bytes = 64 << 10, .memory_bytes = 1 << 20, .readers = 4};
  const Streamed small = stream(turned, tight, 1 << 20);
  EXPECT_EQ(small.bytes == roomy.bytes, true);
  EXPECT_LE(small.report.peak_scratch, uint64_t{1} << 20);
  EXPECT_LE(reader(tight).cost(turned, 1 << 20)->scratch_bytes, uint64_t{1} << 20);
}

TEST_F(WeightsStream, RejectsAViewAboveTheBudget) {
  const ReaderOptions tiny{.memory_bytes = 100 << 10};
  const auto cost = reader(tiny).cost(as_f16_);
  ASSERT_FALSE(cost);
  EXPECT_EQ(code_of(cost.error()), "weights.over_budget");
  EXPECT_FALSE(cost.error()[0].next_step.empty());
  StreamReport report;
  EXPECT_FALSE(stream_all(reader(tiny), as_f16_, 1 << 20, report));
  EXPECT_EQ(report.bytes_read, 0u);
}

TEST(ExportReader, RejectsReadersIfPlanFillsBudget) {
  constexpr uint64_t kBudget = uint64_t{256} << 20, kPlan = uint64_t{200} << 20;
  EXPECT_TRUE(check_plan_bytes(kBudget, kPlan));
  EXPECT_FALSE(export_reader(kBudget, 1, kPlan));
  const Status refused = check_plan_bytes(kBudget, kPlan + (uint64_t{50} << 20));
  ASSERT_FALSE(refused);
  EXPECT_EQ(code_of(refused.error()), "weights.over_budget");
}

TEST(ExportReader, DividesTheBudgetAmongJobs) {
  const auto one = export_reader(uint64_t{256} << 20, 1),
             four = export_reader(uint64_t{256} << 20, 4);
  ASSERT_TRUE(one && four);
  EXPECT_LT(one->memory_bytes, uint64_t{256} << 20);
  EXPECT_LT(4 * four->memory_bytes, one->memory_bytes);
  const auto many = export_reader(uint64_t{256} << 20, 64);
  ASSERT_FALSE(many);
  EXPECT_EQ(code_of(many.error()), "weights.over_budget");
  const auto planned = export_reader(uint64_t{256} << 20, 1, 1000);
  ASSERT_TRUE(planned) << render(planned.error());
  EXPECT_EQ(planned->memory_bytes, one->memory_bytes - 1000);
  const auto large = export_reader(uint64_t{256} << 20, 1, uint64_t{723} << 20);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error()[0].cause.find("(723 of them for its plan)"), std::string::npos);
}

}  // namespace
}  // namespace moec
