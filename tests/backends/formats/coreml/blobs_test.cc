#include <gmock/gmock.h>

#include "backends/formats/coreml/weight_blobs.h"
#include "tests/backends/formats/coreml/testing.h"
#include "tests/files.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

template <class T>
std::vector<std::byte> blob_bytes(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

void write_blob(BlobWriter& file, BlobDType dtype, uint64_t elements,
                const std::vector<std::byte>& bytes) {
  ASSERT_TRUE(file.begin(dtype, elements));
  ASSERT_TRUE(file.write(bytes));
}

// Written by coremltools' blob writer: f16, i8, u4 and f32 blobs.
TEST(CoremlBlobLayout, MatchesBytesOfCoremltools) {
  TestFolder folder;
  const std::string golden =
      read_file(source_dir() + "/tests/backends/formats/coreml/weight_v2.bin");
  ASSERT_EQ(golden.size(), 588u);
  auto file = BlobWriter::create(OutputPath::of_file(folder / "weight.bin"), 4, golden.size());
  ASSERT_TRUE(file);
  write_blob(*file, BlobDType::f16, 10, std::vector<std::byte>(20));
  write_blob(*file, BlobDType::i8, 65, std::vector<std::byte>(65, std::byte{3}));
  write_blob(*file, BlobDType::u4, 5, {std::byte{0x21}, std::byte{0x43}, std::byte{0x05}});
  write_blob(*file, BlobDType::f32, 3, blob_bytes<float>({1, 1, 1}));
  ASSERT_TRUE(file->publish());
  EXPECT_EQ(read_file(folder / "weight.bin"), golden);
}

TEST(CoremlBlobLayout, PlacesEntriesAfterTheirHeaders) {
  DataLayout layout(kBlobFormat);
  layout.add(Weight{splat_view(1, {DType::f16, {10}})}, {DType::f16, {10}}, "a");
  layout.add(Weight{splat_view(1, {DType::f16, {33}})}, {DType::f16, {33}}, "b");
  layout.add_literal("12345678", DType::f32, "c");
  ASSERT_EQ(layout.entries().size(), 3u);
  EXPECT_EQ(layout.entries()[0].offset, 128u);
  EXPECT_EQ(layout.entries()[1].offset, 192u + 64);
  EXPECT_EQ(layout.entries()[2].offset, 384u + 64);
  EXPECT_EQ(layout.file_bytes(), 456u);
  EXPECT_EQ(layout.weight_bytes(), 86u);
  TestFolder folder;
  EmitReport report;
  auto file = write_blobs(layout, no_files(), {.tile_bytes = 6},
                          OutputPath::of_file(folder / "w.bin"), report);
  ASSERT_TRUE(file) << render(file.error());
  const std::string data = read_file(folder / "w.bin");
  EXPECT_EQ(data.size(), 456u);
  EXPECT_EQ(file->bytes, 456u);
  EXPECT_EQ(data.substr(448), "12345678");
  EXPECT_EQ(report.tensors.size(), 2u);
  EXPECT_EQ(report.weight_bytes, 86u);
}

TEST(CoremlBlobLayout, DeduplicatesLiteralsPerElementType) {
  DataLayout layout(kBlobFormat);
  layout.add_literal("12345678", DType::f32, "a");
  layout.add_literal("12345678", DType::f32, "b");
  layout.add_literal("12345678", DType::f16, "c");
  ASSERT_EQ(layout.entries().size(), 2u);
  EXPECT_EQ(layout.find_literal("12345678", DType::f32).name, "a");
  EXPECT_EQ(layout.find_literal("12345678", DType::f16).name, "c");
}

// The layout determines the offsets, so the test does not write a 5 GB file.
TEST(CoremlBlobLayout, ComputesOffsetsBeyond4GiBExactly) {
  DataLayout layout(kBlobFormat);
  const Type large{DType::f16, {int64_t{1} << 31}};
  layout.add(Weight{splat_view(1, large)}, large, "large");
  layout.add(Weight{splat_view(2, {DType::f16, {1}})}, {DType::f16, {1}}, "small");
  EXPECT_EQ(layout.entries()[1].offset, 128 + (uint64_t{1} << 32) + 64);
}

}  // namespace
}  // namespace moec
