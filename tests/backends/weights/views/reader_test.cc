// The reader's errors, memory use and helpers.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "backends/weights/views/weight_reader.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

const Type kFour{DType::f32, {4}};

std::string four_floats(const std::string& name) {
  return write_file(name, bytes_of<float>({1, 2, 3, 4}));
}

std::string open_error(WeightTable table) {
  auto reader = WeightReader::open(std::move(table));
  return reader ? "" : code_of(reader.error());
}

Status ignore(std::span<const std::byte>) { return {}; }

std::string stream_error(const WeightReader& reader, const WeightView& view,
                         const TileSink& sink = ignore) {
  StreamReport report;
  Status status = reader.stream(view, 8, sink, report);
  return status ? "" : code_of(status.error());
}

TEST(WeightsReader, RejectsNonregularFiles) {
  EXPECT_EQ(open_error(table_of(temp_path("absent.bin"), 16, kFour)), "weights.open");
  const std::string folder = temp_path("folder");
  fs::create_directories(folder);
  EXPECT_EQ(open_error(table_of(folder, 16, kFour)), "weights.not_a_file");
  const std::string pipe = temp_path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(open_error(table_of(pipe, 16, kFour)), "weights.not_a_file");
}

TEST(WeightsReader, RejectsFilesOfChangedSize) {
  const std::string path = four_floats("other_size.bin");
  EXPECT_EQ(open_error(table_of(path, 16, kFour)), "");
  EXPECT_EQ(open_error(table_of(path, 20, kFour)), "weights.file_changed");
  EXPECT_EQ(open_error(table_of(path, 12, kFour)), "weights.file_changed");
}

TEST(WeightsReader, NamesTheFileInErrors) {
  auto reader = WeightReader::open(table_of(four_floats("named.bin"), 20, kFour));
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error()[0].place.file.find("named.bin"), std::string::npos);
  EXPECT_EQ(reader.error()[0].cause, "the file has 16 bytes, but had 20 when its header was read");
  EXPECT_FALSE(reader.error()[0].next_step.empty());
}

// The table records the identity of the earlier file; the size is unchanged.
TEST(WeightsReader, RejectsFilesNewerThanTheirHeader) {
  const std::string path = four_floats("written_since.bin");
  WeightTable table = table_of(path, 16, kFour);
  table.files[0].identity = RegularFile::open(path)->identity();
  EXPECT_EQ(open_error(table), "");
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::milliseconds(1));
  EXPECT_EQ(open_error(table), "weights.file_changed");
  table.files[0].identity = RegularFile::open(path)->identity();
  const std::string aside = four_floats("written_aside.bin");
  fs::last_write_time(aside, fs::last_write_time(path));
  fs::rename(aside, path);
  EXPECT_EQ(open_error(table), "weights.file_changed");
}

TEST(WeightsReader, IgnoresLinkAndModeChanges) {
  const std::string path = four_floats("linked.bin"), link = temp_path("link.bin");
  auto reader = WeightReader::open(table_of(path, 16, kFour));
  ASSERT_TRUE(reader);
  fs::remove(link);
  fs::create_hard_link(path, link);
  ASSERT_EQ(::chmod(path.c_str(), 0400), 0);
  EXPECT_EQ(stream_error(*reader, tensor_view("w", kFour)), "");
}

TEST(WeightsReader, DetectsAFileChangedAfterOpening) {
  const std::string path = four_floats("changes.bin");
  auto reader = WeightReader::open(table_of(path, 16, kFour));
  ASSERT_TRUE(reader);
  EXPECT_EQ(stream_error(*reader, tensor_view("w", kFour)), "");
  fs::resize_file(path, 8);
  EXPECT_EQ(stream_error(*reader, tensor_view("w", kFour)), "weights.file_changed");
  fs::resize_file(path, 16);  // restores the size but not the content
  fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_EQ(stream_error(*reader, tensor_view("w", kFour)), "weights.file_changed");
}

TEST(WeightsReader, DetectsAReplacedOrRemovedFile) {
  const std::string path = four_floats("replaced.bin"), aside = four_floats("aside.bin");
  fs::last_write_time(aside, fs::last_write_time(path));
  auto reader = WeightReader::open(table_of(path, 16, kFour));
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->check_unchanged());
  fs::rename(aside, path);  // same size and time, but another file
  EXPECT_EQ(stream_error(*reader, tensor_view("w", kFour)), "weights.file_changed");
  EXPECT_FALSE(reader->check_unchanged());
  fs::remove(path);
  EXPECT_EQ(stream_error(*reader, tensor_view("w", kFour)), "weights.file_changed");
  StreamReport report;
  const Status status = reader->stream(
      tensor_view("w", kFour), 16, [](auto) { return Status(); }, report);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error()[0].place.tensor, "w");
  EXPECT_EQ(status.error()[0].place.file, path);
}

TEST(WeightsReader, DetectsAShrinkingFile) {
  const std::string path = write_file("shrinks.bin", Bytes(1 << 16));
  const Type type{DType::u8, {1 << 16}};
  auto reader = WeightReader::open(table_of(path, 1 << 16, type));
  ASSERT_TRUE(reader);
  const auto shrink = [&](std::span<const std::byte>) -> Status {
    fs::resize_file(path, 4);
    return {};
  };
  EXPECT_EQ(stream_error(*reader, tensor_view("w", type), shrink), "weights.file_changed");
}

TEST(WeightsReader, RejectsTensorsOutsideTheTable) {
  WeightTable table = table_of(four_floats("refuses.bin"), 16, kFour);
  table.tensors["past_end"] = {0, 4, kFour};
  table.tensors["far"] = {0, ~uint64_t{0} - 3, kFour};
  table.tensors["no_file"] = {1, 0, kFour};
  auto reader = WeightReader::open(table);
  ASSERT_TRUE(reader);
  EXPECT_EQ(stream_error(*reader, tensor_view("x", kFour)), "weights.unknown_tensor");
  EXPECT_EQ(stream_error(*reader, tensor_view("w", {DType::f16, {4}})), "weights.type_mismatch");
  EXPECT_EQ(stream_error(*reader, tensor_view("past_end", kFour)), "weights.out_of_range");
  EXPECT_EQ(stream_error(*reader, tensor_view("far", kFour)), "weights.out_of_range");
  EXPECT_EQ(stream_error(*reader, tensor_view("no_file", kFour)), "weights.out_of_range");
  WeightView bad_slice = tensor_view("w", kFour);
  bad_slice.steps.emplace_back(SliceStep{0, 3, 2});
  EXPECT_EQ(stream_error(*reader, bad_slice), "view.c3");
  auto cost = reader->cost(tensor_view("x", kFour));
  ASSERT_FALSE(cost);
  EXPECT_EQ(code_of(cost.error()), "weights.unknown_tensor");
}

TEST(WeightsReader, StopsAtAFailingSink) {
  auto reader = WeightReader::open({});
  ASSERT_TRUE(reader);
  int calls = 0;
  const auto full = [&](std::span<const std::byte>) -> Status {
    return ++calls == 2 ? Status(fail("test.no_space", "no space")) : Status();
  };
  EXPECT_EQ(stream_error(*reader, splat_view(1, {DType::f32, {100}}), full), "test.no_space");
  EXPECT_EQ(calls, 2);
}

TEST(WeightsReader, LimitsReadF32) {
  auto reader = WeightReader::open({});
  ASSERT_TRUE(reader);
  auto values = reader->read_f32(splat_view(0.5, {DType::bf16, {2, 3}}), 24);
  ASSERT_TRUE(values);
  EXPECT_EQ(*values, std::vector<float>(6, 0.5f));
  auto too_large = reader->read_f32(splat_view(0.5, {DType::bf16, {2, 3}}), 23);
  ASSERT_FALSE(too_large);
  EXPECT_EQ(code_of(too_large.error()), "weights.too_large");
}

TEST(WeightsReader, CountsNonfiniteElements) {
  const std::vector<float> values = {0, INFINITY, NAN, -INFINITY, 1, 2};
  const Type type{DType::f32, {2, 3}};
  auto reader =
      WeightReader::open(table_of(write_file("nonfinite.bin", bytes_of(values)), 24, type));
  ASSERT_TRUE(reader);
  const auto nonfinite = [&](const WeightView& view) {
    return reader->scan(view).value_or(StreamReport{}).nonfinite;
  };
  EXPECT_EQ(nonfinite(tensor_view("w", type)), 3u);
  EXPECT_EQ(nonfinite(then(tensor_view("w", type), SliceStep{0, 1, 1})), 1u);
}

TEST(WeightsReader, StreamsFromSeveralThreads) {
  std::vector<float> values(5000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const Type type{DType::f32, {50, 100}};
  auto reader = WeightReader::open(
      table_of(write_file("threads.bin", bytes_of(values)), values.size() * 4, type));
  ASSERT_TRUE(reader);
  const WeightView view = then(tensor_view("w", type), PermuteStep{{1, 0}});
  std::vector<std::vector<float>> found(4);
  std::vector<std::thread> threads;
  for (auto& one : found)
    threads.emplace_back([&] { one = reader->read_f32(view, 1 << 20).value_or(one); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& one : found) {
    ASSERT_EQ(one.size(), values.size());
    EXPECT_EQ(one[1], 100.0f);
    EXPECT_EQ(one, found[0]);
  }
}

// ---- Size --------------------------------------------------------------------------------------

// A sparse file of 5 GiB: zeros, except `marks` at given offsets.
std::string sparse_file(const std::string& name,
                        const std::vector<std::pair<uint64_t, uint16_t>>& marks) {
  std::string path = write_file(name, {});
  fs::resize_file(path, uint64_t{5} << 30);
  const int file = ::open(path.c_str(), O_WRONLY);
  for (auto [offset, value] : marks)
    EXPECT_EQ(::pwrite(file, &value, 2, static_cast<off_t>(offset)), 2);
  ::close(file);
  return path;
}

constexpr int64_t kRows = 1 << 18, kColumns = 1 << 13;  // bf16: 4 GiB

WeightTable sparse_table(const std::string& path) {
  WeightTable table;
  table.files = {{path, uint64_t{5} << 30}};
  table.tensors["w"] = {0, uint64_t{1} << 30, {DType::bf16, {kRows, kColumns}}};
  table.tensors["bytes"] = {0, 0, {DType::u8, {int64_t{3} << 30}}};
  return table;
}

uint64_t offset_of(int64_t row, int64_t column) {
  return (uint64_t{1} << 30) + static_cast<uint64_t>(row * kColumns + column) * 2;
}

class SparseFile : public testing::Test {
 protected:
  void SetUp() override {
    path_ = sparse_file("sparse.bin", {{offset_of(kRows - 1, kColumns - 1), 0x3f80},
                                       {offset_of(kRows - 2, 3), 0x4000},
                                       {(uint64_t{3} << 30) - 2, 0xabcd}});
    auto opened = WeightReader::open(sparse_table(path_));
    ASSERT_TRUE(opened) << render(opened.error());
    reader_ = std::make_unique<WeightReader>(std::move(*opened));
  }
  void TearDown() override { fs::remove(path_); }

  std::string path_;
  std::unique_ptr<WeightReader> reader_;
  const WeightView whole_ = tensor_view("w", {DType::bf16, {kRows, kColumns}});
};

TEST_F(SparseFile, ReadsOffsetsBeyond4GiB) {
  const WeightView corner =
      then(then(whole_, SliceStep{0, kRows - 2, 2}), SliceStep{1, kColumns - 1, 1});
  EXPECT_EQ(reader_->read_f32(corner, 1 << 20).value_or(std::vector<float>()),
            (std::vector<float>{0, 1}));
  const WeightView column = then(then(whole_, SliceStep{1, 3, 2}), SliceStep{0, kRows - 3, 3});
  EXPECT_EQ(
      reader_->read_f32(then(column, PermuteStep{{1, 0}}), 1 << 20).value_or(std::vector<float>()),
      (std::vector<float>{0, 2, 0, 0, 0, 0}));
}

// The cost is known before reading and does not grow with the size of the tensor.
TEST_F(SparseFile, BoundsTheCostOfLargeViews) {
  auto in_order = reader_->cost(then(whole_, CastStep{DType::f16}));
  auto transposed = reader_->cost(then(then(whole_, PermuteStep{{1, 0}}), CastStep{DType::f32}));
  ASSERT_TRUE(in_order && transposed);
  EXPECT_EQ(in_order->result_bytes, uint64_t{4} << 30);
  EXPECT_LE(in_order->scratch_bytes, uint64_t{5} << 20);
  EXPECT_EQ(transposed->result_bytes, uint64_t{8} << 30);
  EXPECT_LE(transposed->scratch_bytes, uint64_t{128} << 20);
}

TEST_F(SparseFile, StreamsThreeGigabytesThroughOneTile) {
  StreamReport report;
  std::byte last{};
  const auto sink = [&](std::span<const std::byte> tile) -> Status {
    EXPECT_LE(tile.size(), kDefaultTileBytes);
    last = tile.back();
    return {};
  };
  const WeightView bytes = tensor_view("bytes", {DType::u8, {int64_t{3} << 30}});
  ASSERT_TRUE(reader_->stream(bytes, kDefaultTileBytes, sink, report));
  EXPECT_EQ(report.elements, uint64_t{3} << 30);
  EXPECT_EQ(report.bytes_read, uint64_t{3} << 30);
  EXPECT_EQ(last, std::byte{0xab});
  EXPECT_EQ(report.peak_scratch, kDefaultTileBytes);
}

TEST_F(SparseFile, BoundsTheScratchOfTransposedBands) {
  const WeightView band =
      then(then(then(whole_, SliceStep{0, kRows - 8192, 8192}), PermuteStep{{1, 0}}),
           CastStep{DType::f16});
  auto cost = reader_->cost(band);
  ASSERT_TRUE(cost);
  StreamReport report;
  ASSERT_TRUE(reader_->stream(band, kDefaultTileBytes, ignore, report));
  EXPECT_EQ(report.elements, uint64_t{8192} * kColumns);
  EXPECT_LE(report.peak_scratch, cost->scratch_bytes);
  EXPECT_LE(report.peak_scratch, uint64_t{100} << 20);
}

}  // namespace
}  // namespace moec
