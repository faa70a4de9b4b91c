#include "backends/formats/safetensors/safetensors.h"

#include "tests/files.h"
#include "tests/frontends/sources/hf/folder.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

Result<SafetensorsHeader> parse(const std::string& header, size_t payload) {
  std::string bytes = safetensors_bytes(header, payload);
  return parse_safetensors(bytes, bytes.size(), "x.safetensors");
}

// Parses a file whose only tensor "t" has the given fields.
Result<SafetensorsHeader> one(const std::string& dtype, const std::string& shape, uint64_t end,
                              size_t payload) {
  return parse(R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[0,)" +
                   std::to_string(end) + "]}}",
               payload);
}

std::string entry(const std::string& name, uint64_t begin, uint64_t end) {
  return "\"" + name + R"(":{"dtype":"U8","shape":[)" + std::to_string(end - begin) +
         R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(end) + "]}";
}

TEST(Safetensors, ReadsTensorsInOffsetOrder) {
  auto header = parse(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[12,14]},)"
      R"("c":{"data_offsets":[0,4],"shape":[4],"dtype":"F8_E4M3"}}  )",
      14);
  ASSERT_TRUE(header.has_value()) << render(header.error());
  ASSERT_EQ(header->tensors.size(), 3u);
  EXPECT_EQ(header->tensors[0].name, "c");
  EXPECT_EQ(header->tensors[1].name, "b");
  EXPECT_EQ(header->tensors[2].name, "a");
  EXPECT_EQ(header->tensors[1].end - header->tensors[1].begin, 8u);
  EXPECT_EQ(header->tensors[2].end, header->file_bytes);
  EXPECT_EQ(header->metadata.at("format"), "pt");
  EXPECT_EQ(ir_type(header->tensors[1]), (Type{DType::f32, {2, 1}}));
  EXPECT_EQ(ir_type(header->tensors[2]), (Type{DType::bf16, {}}));
}

TEST(Safetensors, AcceptsEmptyTensorsWithoutIrType) {
  auto header = one("F32", "[0,3]", 0, 0);
  ASSERT_TRUE(header.has_value()) << render(header.error());
  EXPECT_EQ(ir_type(header->tensors[0]), std::nullopt);
  EXPECT_TRUE(parse("{}", 0).has_value());
}

TEST(Safetensors, ReadsTypesWithoutAnIrType) {
  for (const char* dtype : {"F64", "I64", "U64", "C64"})
    EXPECT_TRUE(one(dtype, "[2]", 16, 16).has_value()) << dtype;
  for (const char* dtype :
       {"BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"})
    EXPECT_TRUE(one(dtype, "[2]", 2, 2).has_value()) << dtype;
  for (const char* dtype : {"I16", "U16", "F16", "BF16"})
    EXPECT_TRUE(one(dtype, "[2]", 4, 4).has_value()) << dtype;
  for (const char* dtype : {"F6_E2M3", "F6_E3M2"})
    EXPECT_TRUE(one(dtype, "[4]", 3, 3).has_value()) << dtype;
  auto f64 = one("F64", "[2]", 16, 16);
  EXPECT_EQ(ir_type(f64->tensors[0]), std::nullopt);
  EXPECT_TRUE(one("F4", "[3,2]", 3, 3).has_value());
  EXPECT_TRUE(one("F32", "[1,1,1,1,1,1,1,1]", 4, 4).has_value());
  EXPECT_EQ(ir_type(one("F32", "[1,1,1,1,1,1]", 4, 4)->tensors[0]), std::nullopt);
}

// ---- rules of the format -----------------------------------------------------------------------

TEST(Safetensors, RejectsShortFiles) {
  for (size_t size : {0u, 7u})
    expect_error(parse_safetensors(std::string(size, '\0'), size, "x"), "safetensors.too_short",
                 "expected at least 8");
}

TEST(Safetensors, RejectsHeadersAboveTheLimit) {
  std::string bytes = safetensors_bytes("{}", 0);
  bytes[0] = static_cast<char>(0x01);
  bytes[3] = static_cast<char>(0x06);  // 0x06000001 = 100,663,297
  expect_error(parse_safetensors(bytes, bytes.size(), "x"), "safetensors.header_too_long",
               "100663297 bytes, the limit is 100000000");
  bytes[7] = static_cast<char>(0xff);
  expect_error(parse_safetensors(bytes, UINT64_MAX, "x"), "safetensors.header_too_long", "");
}

TEST(Safetensors, RejectsFilesTruncatedInTheHeader) {
  std::string bytes = safetensors_bytes("{}      ", 0);
  auto header = parse_safetensors(bytes.substr(0, 12), 12, "x.safetensors");
  expect_error(header, "safetensors.truncated", "the header has 8 bytes, but only 4");
  EXPECT_EQ(header.error()[0].place.offset, 12u);
}

TEST(Safetensors, RejectsFilesTruncatedInATensor) {
  auto header = one("F32", "[4]", 16, 15);
  expect_error(header, "safetensors.truncated",
               "exceed the file, which has 15 bytes after its header");
  EXPECT_EQ(header.error()[0].place.tensor, "t");
  EXPECT_EQ(header.error()[0].place.file, "x.safetensors");
}

TEST(Safetensors, RequiresALeadingBrace) {
  expect_error(parse(" {}", 0), "safetensors.header_start", "does not start with {");
  expect_error(parse("", 0), "safetensors.header_start", "");
  expect_error(parse("[]", 0), "safetensors.header_start", "");
}

TEST(Safetensors, RequiresJson) {
  expect_error(parse("{\"a\":", 0), "json.syntax", "");
  expect_error(parse(std::string("{}\0 x", 5), 0), "json.syntax", "NUL");
  expect_error(parse("{} x", 0), "json.syntax", "");
  expect_error(parse("{\"\xff\":1}", 0), "json.syntax", "UTF-8");
}

TEST(Safetensors, RejectsGapsBetweenTensors) {
  expect_error(parse("{" + entry("a", 1, 3) + "}", 3), "safetensors.hole",
               "1 bytes before the tensor belong to no tensor");
  expect_error(parse("{" + entry("a", 0, 3) + "," + entry("b", 5, 6) + "}", 6), "safetensors.hole",
               "2 bytes before the tensor");
}

TEST(Safetensors, RejectsOverlaps) {
  auto header = parse("{" + entry("a", 0, 3) + "," + entry("b", 2, 6) + "}", 6);
  expect_error(header, "safetensors.overlap", "the tensor's bytes overlap those of \"a\"");
  EXPECT_EQ(header.error()[0].place.tensor, "b");
  expect_error(parse("{" + entry("a", 0, 3) + "," + entry("b", 0, 3) + "}", 3),
               "safetensors.overlap", "");
}

TEST(Safetensors, RejectsTrailingBytes) {
  expect_error(parse("{" + entry("a", 0, 3) + "}", 5), "safetensors.trailing",
               "2 bytes after the last tensor");
  expect_error(parse("{}", 1), "safetensors.trailing", "1 bytes");
}

TEST(Safetensors, RejectsOffsetsEndingBeforeTheyBegin) {
  expect_error(parse(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[2,1]}})", 2),
               "safetensors.offsets", "[2, 1] end before they begin");
}

TEST(Safetensors, RequiresShapesMatchingTheByteRange) {
  expect_error(one("F32", "[3]", 8, 8), "safetensors.size",
               "F32[3] has 12 bytes, its data_offsets span 8");
  expect_error(one("F32", "[]", 8, 8), "safetensors.size", "F32[] has 4 bytes");
}

TEST(Safetensors, RejectsOverflowingProducts) {
  expect_error(one("F32", "[281474976710656,281474976710656]", 0, 0), "safetensors.shape",
               "the product of the sizes is too large");
  // 2^48 · 2^16 · 1 byte would be 0 modulo 2^64.
  expect_error(one("U8", "[281474976710656,65536]", 0, 0), "safetensors.shape", "too large");
}

TEST(Safetensors, RequiresWholeBytes) {
  expect_error(one("F6_E2M3", "[3]", 2, 2), "safetensors.shape", "not a whole number of bytes");
  expect_error(one("F4", "[2,3]", 3, 3), "safetensors.shape", "not a whole number of bytes");
}

TEST(Safetensors, RejectsUnknownElementTypes) {
  expect_error(one("F128", "[1]", 16, 16), "safetensors.dtype", "unknown element type \"F128\"");
}

// ---- hostile files -----------------------------------------------------------------------------

TEST(Safetensors, RejectsDuplicateNames) {
  expect_error(parse("{" + entry("a", 0, 1) + "," + entry("a", 1, 2) + "}", 2),
               "json.duplicate_key", "the key \"a\" occurs twice");
  expect_error(parse(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
               "json.duplicate_key", "\"dtype\"");
}

TEST(Safetensors, RejectsInvalidNumbers) {
  for (const char* shape : {"[-1]", "[1.0]", "[1e0]", "[\"1\"]", "[null]", "[281474976710657]"})
    expect_error(one("U8", shape, 1, 1), "safetensors.number", "not an integer from 0 to 2^48");
  expect_error(one("U8", "[99999999999999999999]", 1, 1), "json.number", "");
  expect_error(parse(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[-1,0]}})", 1),
               "safetensors.number", "-1");
}

TEST(Safetensors, RejectsUnknownMissingAndInvalidFields) {
  expect_error(parse(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1}})", 1),
               "safetensors.field", "unknown field \"x\"");
  expect_error(parse(R"({"t":{"shape":[1],"data_offsets":[0,1]}})", 1), "safetensors.field",
               "\"dtype\" must be a string");
  expect_error(parse(R"({"t":{"dtype":"U8","data_offsets":[0,1]}})", 1), "safetensors.field",
               "\"shape\" must be a list");
  expect_error(parse(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1,2]}})", 1),
               "safetensors.field", "two numbers");
  expect_error(parse(R"({"t":[1]})", 1), "safetensors.field", "an array, expected an object");
}

TEST(Safetensors, LimitsTheRank) {
  expect_error(one("U8", "[1,1,1,1,1,1,1,1,1]", 1, 1), "safetensors.rank", "9 sizes");
}

TEST(Safetensors, RejectsInvalidMetadata) {
  expect_error(parse(R"({"__metadata__":{"a":1}})", 0), "safetensors.metadata",
               "\"a\" in __metadata__ is an integer");
  expect_error(parse(R"({"__metadata__":[]})", 0), "safetensors.metadata", "not an object");
}

TEST(Safetensors, RejectsDeepNesting) {
  expect_error(parse(R"({"t":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}})", 1), "json.depth",
               "deeper than 3");
}

TEST(Safetensors, RejectsInvalidNames) {
  expect_error(parse("{" + entry("", 0, 1) + "}", 1), "safetensors.name", "empty");
  expect_error(parse("{" + entry("a\\u0000b", 0, 1) + "}", 1), "safetensors.name",
               "not printable: \"a?b\"");
  expect_error(parse("{" + entry("a\\nb", 0, 1) + "}", 1), "safetensors.name", "not printable");
  expect_error(parse("{" + entry(std::string(1025, 'a'), 0, 1) + "}", 1), "safetensors.name",
               "longer than 1,024 bytes");
  EXPECT_TRUE(parse("{" + entry(std::string(1024, 'a'), 0, 1) + "}", 1).has_value());
}

TEST(Safetensors, RejectsHeadersFarLargerThanTensors) {
  std::string header = "{" + entry("a", 0, 3) + "}" + std::string(2 << 20, ' ');
  expect_error(parse(header, 3), "safetensors.header_ratio", "the tensors only 3");
}

TEST(Safetensors, ReadsManyTensors) {
  std::string header = "{";
  for (uint64_t i = 0; i < 20'000; ++i)
    header += (i ? "," : "") + entry("t" + std::to_string(i), i * 200, (i + 1) * 200);
  auto parsed = parse(header + "}", 20'000 * 200);
  ASSERT_TRUE(parsed.has_value()) << render(parsed.error());
  EXPECT_EQ(parsed->tensors.size(), 20'000u);
}

// ---- files -------------------------------------------------------------------------------------

TEST(SafetensorsFile, ReadsThroughALink) {
  std::string folder = empty_folder("st_link");
  write_file(folder + "/blob", safetensors_bytes("{" + entry("a", 0, 3) + "}", 3));
  std::filesystem::create_symlink(folder + "/blob", folder + "/model.safetensors");
  auto header = read_safetensors(folder + "/model.safetensors");
  ASSERT_TRUE(header.has_value()) << render(header.error());
  EXPECT_EQ(header->tensors.size(), 1u);
}

TEST(SafetensorsFile, AvoidsAllocatingHugeLengths) {
  std::string folder = empty_folder("st_huge");
  std::string bytes = safetensors_bytes("{}", 0);
  bytes.replace(0, 8, std::string(8, '\x7f'));
  write_file(folder + "/x", bytes);
  expect_error(read_safetensors(folder + "/x"), "safetensors.header_too_long", "");
  bytes.replace(0, 8, std::string("\x00\xe0\xf5\x05\0\0\0\0", 8));  // 99,999,744
  write_file(folder + "/x", bytes);
  expect_error(read_safetensors(folder + "/x"), "safetensors.truncated", "99999744 bytes");
}

TEST(SafetensorsFile, RejectsEmptyFilesAndFolders) {
  std::string folder = empty_folder("st_empty");
  write_file(folder + "/x", "");
  expect_error(read_safetensors(folder + "/x"), "safetensors.too_short", "0 bytes");
  expect_error(read_safetensors(folder), "file.not_regular", "");
}

}  // namespace
}  // namespace moec
