#include "backends/formats/gguf/gguf_header.h"

#include "frontends/sources/gguf/gguf.h"
#include "tests/frontends/sources/gguf/gguf_bytes.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

constexpr uint32_t kF32 = 0, kQ4K = 12;

TEST(GgufHeader, ReadsKeysAndTensors) {
  GgufBytes bytes;
  bytes.text("general.architecture", "qwen3moe").u32("qwen3moe.block_count", 4);
  bytes.tensor({"a", {3, 2}, kF32, 0})
      .tensor({"b", {512, 5}, kQ4K, 32})
      .tensor({"c", {}, 30, 1472});
  const std::string file = bytes.file(1474);
  const auto header = parse_bytes(file);
  ASSERT_TRUE(header) << render(header.error());
  EXPECT_EQ(header->version, 3u);
  EXPECT_EQ(header->alignment, 32u);
  EXPECT_EQ(header->file_bytes, file.size());
  EXPECT_EQ(header->data_start, file.size() - 1474);
  EXPECT_EQ(header->values.get<std::string_view>("general.architecture"), "qwen3moe");
  EXPECT_EQ(header->values.get<uint32_t>("qwen3moe.block_count"), 4u);
  const uint64_t data = header->data_start;
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->tensors[0], (GgufTensor{"a", BlockType::f32, {2, 3}, 0, data, 24}));
  EXPECT_EQ(header->tensors[1], (GgufTensor{"b", BlockType::q4_k, {5, 512}, 0, data + 32, 1440}));
  EXPECT_EQ(header->tensors[2], (GgufTensor{"c", BlockType::bf16, {}, 0, data + 1472, 2}));
}

TEST(GgufHeader, ReadsTheSmallestFile) {
  const auto header = parse_bytes(GgufBytes().header());
  ASSERT_TRUE(header) << render(header.error());
  EXPECT_TRUE(header->tensors.empty());
  EXPECT_TRUE(header->values.keys().empty());
}

TEST(GgufHeader, ReadsVersion2) {
  GgufBytes bytes;
  bytes.version = 2;
  bytes.tensor({"a", {8}, kF32, 0});
  EXPECT_TRUE(parse_bytes(bytes.file(32)));
}

TEST(GgufHeader, ReadsAnAlignmentOf64) {
  GgufBytes bytes;
  bytes.u32("general.alignment", 64).tensor({"a", {1}, kF32, 0}).tensor({"b", {1}, kF32, 64});
  const auto header = parse_bytes(bytes.file(68, 64));
  ASSERT_TRUE(header) << render(header.error());
  EXPECT_EQ(header->data_start % 64, 0u);
  EXPECT_EQ(header->tensors[1].offset, header->data_start + 64);
}

TEST(GgufHeader, AcceptsTrailingBytesAndUnitSizes) {
  GgufBytes bytes;
  bytes.tensor({"a", {64, 1, 1, 1}, kF32, 0});
  const auto header = parse_bytes(bytes.file(300));
  ASSERT_TRUE(header) << render(header.error());
  EXPECT_EQ(header->tensors[0].dims, (Dims{1, 1, 1, 64}));
}

TEST(GgufHeader, AcceptsEmptyTensors) {
  GgufBytes bytes;
  bytes.tensor({"a", {32, 0}, kF32, 0}).tensor({"b", {1}, kF32, 0});
  const auto header = parse_bytes(bytes.file(4));
  ASSERT_TRUE(header) << render(header.error());
  EXPECT_EQ(header->tensors[0].bytes, 0u);
}

TEST(GgufHeader, AcceptsTensorsBeyond32Bits) {
  GgufBytes bytes;
  bytes.tensor({"a", {int64_t{1} << 32, 4}, kF32, 0});
  const std::string header = bytes.file(0);
  const uint64_t data = uint64_t{1} << 36;
  const auto parsed = parse_gguf(header, header.size() + data, "x.gguf");
  ASSERT_TRUE(parsed) << render(parsed.error());
  EXPECT_EQ(parsed->tensors[0].bytes, data);
}

// ---- The rules of the format --------------------------------------------------------------------

TEST(GgufHeader, RejectsShortFiles) {
  expect_error(parse_bytes(""), "gguf.too_short", "expected at least 24");
  expect_error(parse_bytes(GgufBytes().header().substr(0, 23)), "gguf.too_short", "23 bytes");
}

TEST(GgufHeader, RejectsWrongMagic) {
  expect_error(parse_bytes("GGML" + std::string(20, '\0')), "gguf.magic", "\"GGUF\"");
}

TEST(GgufHeader, RejectsUnsupportedVersions) {
  for (uint32_t version : {0u, 1u, 4u}) {
    GgufBytes bytes;
    bytes.version = version;
    expect_error(parse_bytes(bytes.header()), "gguf.version", "expected 2 or 3");
  }
  GgufBytes swapped;
  swapped.version = 0x03000000;
  expect_error(parse_bytes(swapped.header()), "gguf.byte_order", "big-endian");
}

TEST(GgufHeader, RejectsTooManyTensorsOrKeys) {
  GgufBytes bytes;
  bytes.tensor_count = 65'537;
  expect_error(parse_bytes(bytes.header()), "gguf.too_many_tensors", "65537 tensors");
  bytes.tensor_count = 0, bytes.key_count = uint64_t{1} << 40;
  expect_error(parse_bytes(bytes.header()), "gguf.too_many_keys", "the limit is 4096");
}

TEST(GgufHeader, RejectsFilesTruncatedInTheHeader) {
  GgufBytes bytes;
  bytes.u32("key", 1).array("list", GgufType::string, 2, gguf_string("ab") + gguf_string("c"));
  bytes.tensor({"a", {8}, kF32, 0});
  const std::string whole = bytes.header();
  for (size_t size = 24; size < whole.size(); ++size)
    expect_error(parse_bytes(whole.substr(0, size)), "gguf.truncated", "");
}

TEST(GgufHeader, ReportsAnIncompleteHeader) {
  const std::string whole = GgufBytes().u32("key", 1).header();
  expect_error(parse_gguf(whole.substr(0, 30), whole.size(), "x"), "gguf.incomplete",
               "extends beyond");
}

TEST(GgufHeader, RejectsFilesTruncatedInATensor) {
  GgufBytes bytes;
  bytes.tensor({"a", {8}, kF32, 0}).tensor({"b", {8}, kF32, 32});
  EXPECT_TRUE(parse_bytes(bytes.file(64)));
  const auto cut = parse_bytes(bytes.file(63));
  expect_error(cut, "gguf.truncated",
               "the tensor's 32 bytes at 32 exceed the data, which has 63 bytes");
  EXPECT_EQ(cut.error()[0].place.tensor, "b");
  EXPECT_EQ(cut.error()[0].place.file, "x.gguf");
  expect_error(parse_bytes(GgufBytes().tensor({"a", {8}, kF32, 0}).header()), "gguf.truncated",
               "exceed the data, which has 0 bytes");
}

TEST(GgufHeader, LimitsStringAndHeaderLengths) {
  const uint64_t file_bytes = uint64_t{1} << 40;
  const std::string string =
      GgufBytes().raw_key("k", GgufType::string, number_bytes((uint64_t{64} << 20) + 1)).header();
  expect_error(parse_gguf(string, file_bytes, "x"), "gguf.string_too_long",
               "a string of \"k\" has 67108865 bytes");
  const std::string key = "GGUF" + number_bytes(3) + number_bytes(uint64_t{0}) +
                          number_bytes(uint64_t{1}) + number_bytes(~uint64_t{0});
  expect_error(parse_gguf(key, file_bytes, "x"), "gguf.string_too_long", "a key has");
  const std::string array = GgufBytes().array("k", GgufType::f64, uint64_t{16} << 20, "").header();
  expect_error(parse_gguf(array, file_bytes, "x"), "gguf.header_too_long", "134217728 bytes");
}

TEST(GgufHeader, RejectsOversizedArrays) {
  for (uint64_t count : {(uint64_t{16} << 20) + 1, ~uint64_t{0}})
    expect_error(parse_bytes(GgufBytes().array("k", GgufType::u8, count, "").header()),
                 "gguf.array_too_long", "the limit is 16777216");
}

TEST(GgufHeader, RejectsInvalidKeys) {
  expect_error(parse_bytes(GgufBytes().u32("", 1).header()), "gguf.key", "a key is empty");
  expect_error(parse_bytes(GgufBytes().u32(std::string(65'536, 'k'), 1).header()), "gguf.key",
               "65536 bytes");
  expect_error(parse_bytes(GgufBytes().u32("k", 1).u32("k", 1).header()), "gguf.duplicate_key",
               "the key \"k\" appears twice");
}

TEST(GgufHeader, RejectsUnknownValueTypes) {
  const auto unknown = static_cast<GgufType>(13);
  expect_error(parse_bytes(GgufBytes().raw_key("k", unknown, "").header()), "gguf.value_type",
               "the unknown type 13");
  expect_error(parse_bytes(GgufBytes().array("k", unknown, 0, "").header()), "gguf.value_type", "");
  expect_error(parse_bytes(GgufBytes().array("k", GgufType::array, 0, "").header()),
               "gguf.nested_array", "an array of arrays");
}

TEST(GgufHeader, RejectsInvalidAlignments) {
  for (uint32_t alignment : {0u, 1u, 8u, 16u, 48u, 96u})
    expect_error(parse_bytes(GgufBytes().u32("general.alignment", alignment).header()),
                 "gguf.alignment", "is " + std::to_string(alignment) + ", expected");
  expect_error(parse_bytes(GgufBytes().u16("general.alignment", 32).header()), "gguf.alignment",
               "of type u16");
  EXPECT_TRUE(parse_bytes(GgufBytes().u32("general.alignment", 1u << 31).header()));
}

TEST(GgufHeader, RejectsInvalidTensorNames) {
  const auto named = [](const std::string& name) {
    return parse_bytes(GgufBytes().tensor({name, {1}, kF32, 0}).file(4));
  };
  EXPECT_TRUE(named(std::string(63, 'n')));
  expect_error(named(std::string(64, 'n')), "gguf.name", "longer than 63 bytes");
  expect_error(named(""), "gguf.name", "empty");
  expect_error(named("a\nb"), "gguf.name", "not printable");
  GgufBytes twice;
  twice.tensor({"a", {8}, kF32, 0}).tensor({"a", {8}, kF32, 32});
  expect_error(parse_bytes(twice.file(64)), "gguf.duplicate_tensor", "two tensors of this name");
}

Result<GgufHeader> one_tensor(std::vector<int64_t> sizes, uint32_t type, uint64_t offset = 0) {
  return parse_bytes(GgufBytes().tensor({"a", std::move(sizes), type, offset}).file(4096));
}

TEST(GgufHeader, RejectsInvalidSizes) {
  expect_error(one_tensor({1, 1, 1, 1, 1}, kF32), "gguf.rank", "5 sizes, the limit is 4");
  expect_error(one_tensor({-1}, kF32), "gguf.dims", "[-1]");
  const int64_t big = int64_t{1} << 32;
  expect_error(one_tensor({big, big}, kF32), "gguf.dims", "too large");
  expect_error(one_tensor({INT64_MAX}, kF32), "gguf.dims", "");
  expect_error(one_tensor({0, big, big}, kF32), "gguf.dims", "");
  expect_error(one_tensor({big, big - 1, 0}, kF32), "gguf.dims", "");
}

TEST(GgufHeader, RejectsInvalidBlockTypes) {
  expect_error(one_tensor({32}, 4), "gguf.removed_type", "q4_2 (4) was removed");
  expect_error(one_tensor({32}, 43), "gguf.type", "the type number 43 is unknown");
  expect_error(one_tensor({128}, kQ4K), "gguf.block",
               "rows of 128 elements are not a multiple of the q4_k block size, 256");
  expect_error(one_tensor({}, kQ4K), "gguf.block", "rows of 1 elements");
  const auto opaque = one_tensor({256, 2}, 16);
  ASSERT_TRUE(opaque) << render(opaque.error());
  EXPECT_EQ(opaque->tensors[0].bytes, 132u);
}

TEST(GgufHeader, RequiresConsecutiveOffsets) {
  expect_error(one_tensor({8}, kF32, 32), "gguf.offset",
               "the tensor begins at byte 32 of the data");
  for (uint64_t offset : {0u, 31u, 33u, 64u}) {
    GgufBytes bytes;
    bytes.tensor({"a", {5}, kF32, 0}).tensor({"b", {8}, kF32, offset});
    expect_error(parse_bytes(bytes.file(128)), "gguf.offset", "expected 32");
  }
}

}  // namespace
}  // namespace moec
