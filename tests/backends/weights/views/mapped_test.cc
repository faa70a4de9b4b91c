// Weights that stay in memory-mapped files.
#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <numeric>

#include "backends/weights/views/mapped_values.h"
#include "tests/backends/weights/views/testing.h"

namespace moec {
namespace {

std::vector<uint16_t> halves(size_t count) {
  std::vector<uint16_t> bits(count);
  for (size_t i = 0; i < count; ++i) bits[i] = f16_from_f32(static_cast<float>(i % 2000) - 1000);
  return bits;
}

std::vector<float> widened(const MappedValues& values) {
  const MappedRead read(values);
  std::vector<float> all(static_cast<size_t>(values.elements()));
  values.widen(0, all.size(), all.data());
  return all;
}

std::optional<MappedValues> mapped(const WeightReader& reader, const WeightView& view) {
  auto values = reader.map(view);
  EXPECT_TRUE(values) << render(values.error());
  return values ? *values : std::nullopt;
}

TEST(MappedValues, MatchTheReader) {
  const Type type{DType::f16, {64, 100}};
  const std::string path = write_file("halves.bin", bytes_of(halves(6400)));
  auto reader = WeightReader::open(table_of(path, 12800, type));
  ASSERT_TRUE(reader);
  const WeightView all = tensor_view("w", type);
  for (const WeightView& view :
       {all, then(all, SliceStep{0, 7, 20}),
        then(then(all, SliceStep{0, 3, 1}), SliceStep{1, 5, 9}), then(all, ReshapeStep{{6400}})}) {
    const auto values = mapped(*reader, view);
    ASSERT_TRUE(values) << to_string(view);
    EXPECT_EQ(widened(*values), reader->read_f32(view, 1 << 20).value());
    values->release();
    EXPECT_EQ(widened(*values), reader->read_f32(view, 1 << 20).value());
    EXPECT_FALSE(values->as_f32());
  }
  EXPECT_TRUE(reader->check_unchanged());
}

TEST(MappedValues, RejectRearrangedAndComputedViews) {
  const Type type{DType::f16, {64, 100}};
  const std::string path = write_file("halves.bin", bytes_of(halves(6400)));
  auto reader = WeightReader::open(table_of(path, 12800, type));
  ASSERT_TRUE(reader);
  const WeightView all = tensor_view("w", type);
  EXPECT_FALSE(mapped(*reader, then(all, PermuteStep{{1, 0}})));
  EXPECT_FALSE(mapped(*reader, then(all, SliceStep{1, 0, 50})));
  EXPECT_FALSE(mapped(*reader, then(all, CastStep{DType::f32})));
  EXPECT_FALSE(mapped(*reader, splat_view(1, type)));
  const auto unknown = reader->map(tensor_view("other", type));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(code_of(unknown.error()), "weights.unknown_tensor");
}

TEST(MappedValues, ReadF32InPlace) {
  std::vector<float> numbers(5000);
  std::iota(numbers.begin(), numbers.end(), 0.5F);
  const Type type{DType::f32, {5000}};
  const std::string path = write_file("floats.bin", bytes_of(numbers));
  auto reader = WeightReader::open(table_of(path, 20000, type));
  ASSERT_TRUE(reader);
  const auto values = mapped(*reader, tensor_view("w", type));
  ASSERT_TRUE(values && values->as_f32());
  const MappedRead read(*values);
  EXPECT_TRUE(std::equal(numbers.begin(), numbers.end(), values->as_f32()->begin()));
}

TEST(MappedValues, ShareThePagesOfAFile) {
  const Type type{DType::f16, {1 << 16}};
  const WeightView all = tensor_view("w", type);
  const std::string path = write_file("shared.bin", bytes_of(halves(1 << 16)));
  const auto first = WeightReader::open(table_of(path, 1 << 17, type));
  const auto second = WeightReader::open(table_of(path, 1 << 17, type));
  EXPECT_EQ(mapped(*first, all)->data(), mapped(*second, all)->data());
  // A later write makes it another file.
  write_file("shared.bin", bytes_of(std::vector<uint16_t>(1 << 16)));
  const auto later = std::filesystem::last_write_time(path) + std::chrono::seconds(1);
  std::filesystem::last_write_time(path, later);
  const auto third = WeightReader::open(table_of(path, 1 << 17, type));
  EXPECT_NE(mapped(*first, all)->data(), mapped(*third, all)->data());
}

// Truncation removes the pages; without a SIGBUS handler, reading them would kill the process.
TEST(MappedValues, ReportTruncatedFiles) {
  const Type type{DType::f16, {1 << 16}};
  const std::string path = write_file("cut.bin", bytes_of(halves(1 << 16)));
  auto reader = WeightReader::open(table_of(path, 1 << 17, type));
  ASSERT_TRUE(reader);
  const auto values = mapped(*reader, tensor_view("w", type));
  ASSERT_TRUE(values);
  std::filesystem::resize_file(path, 4096);
  const std::vector<float> left = widened(*values);
  EXPECT_EQ(left[1], -999);
  EXPECT_EQ(std::accumulate(left.begin() + 2048, left.end(), 0.0), 0);
  const Status changed = reader->check_unchanged();
  ASSERT_FALSE(changed);
  EXPECT_EQ(code_of(changed.error()), "weights.file_changed");
}

}  // namespace
}  // namespace moec
