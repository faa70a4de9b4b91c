#include "ir/graph/stored_codes.h"

#include <gtest/gtest.h>

#include "ir/text/text.h"

namespace moec {
namespace {

// A matrix [6, 80] as stored in a checkpoint: one scale per 32 inputs, with a partial last group.
const std::string kInts = "@w:i32[6,10] | unpack(i4_excess8)";
const std::string kStored = kInts + " | dequant(1, 32; @s:bf16[6,3])";

std::optional<StoredCodes> stored_in(const std::string& text) {
  return stored_codes(parse_view(text).value());
}

void expect_stored(const std::string& text, const std::string& codes, const std::string& scales,
                   const std::string& encoding) {
  const auto stored = stored_in(text);
  ASSERT_TRUE(stored) << text;
  EXPECT_EQ(to_string(stored->codes), codes);
  EXPECT_EQ(to_string(stored->scales), scales);
  EXPECT_EQ(to_string(Encoding{stored->encoding}), encoding);
}

TEST(StoredCodes, FindsCodesUnderCasts) {
  for (const char* cast : {"", " | cast(f16)", " | cast(f32)"})
    expect_stored(kStored + cast, kInts, "@s:bf16[6,3] | cast(f32)", "affine(4; 1, 32; copied)");
}

TEST(StoredCodes, FollowsStepsOfTheView) {
  expect_stored(kStored + " | slice(0, 2, 3) | reshape(3, 80, 1, 1)",
                kInts + " | slice(0, 2, 3) | reshape(3, 80, 1, 1)",
                "@s:bf16[6,3] | cast(f32) | slice(0, 2, 3) | reshape(3, 3, 1, 1)",
                "affine(4; 1, 32, 1, 1; copied)");
  expect_stored(kStored + " | permute(1, 0)", kInts + " | permute(1, 0)",
                "@s:bf16[6,3] | cast(f32) | permute(1, 0)", "affine(4; 32, 1; copied)");
  expect_stored(kStored + " | slice(1, 32, 48)", kInts + " | slice(1, 32, 48)",
                "@s:bf16[6,3] | cast(f32) | slice(1, 1, 2)", "affine(4; 1, 32; copied)");
}

TEST(StoredCodes, JoinsCodes) {
  expect_stored("concat(0; " + kStored + ", " + kStored + " | slice(0, 0, 1)) | cast(f16)",
                "concat(0; " + kInts + ", " + kInts + " | slice(0, 0, 1))",
                "concat(0; @s:bf16[6,3] | cast(f32), @s:bf16[6,3] | cast(f32) | slice(0, 0, 1))",
                "affine(4; 1, 32; copied)");
}

TEST(StoredCodes, FindsCodesInGgufBlocks) {
  expect_stored("@b:u8[4,6,36] | unblock(q4_0) | slice(0, 1, 1) | reshape(6, 64, 1, 1)",
                "@b:u8[4,6,36] | unblock(q4_0, codes) | slice(0, 1, 1) | reshape(6, 64, 1, 1)",
                "@b:u8[4,6,36] | unblock(q4_0, scales) | slice(0, 1, 1) | reshape(6, 2, 1, 1)",
                "affine(4; 1, 32, 1, 1; copied)");
  const std::string halves = " | reshape(2, 2, 2, 256) | permute(0, 2, 1, 3) | reshape(8, 256)";
  const std::string scales = " | reshape(2, 2, 2, 8) | permute(0, 2, 1, 3) | reshape(8, 8)";
  const std::string rows = "@b:u8[8,144] | unblock(q4_k";
  expect_stored(rows + ")" + halves, rows + ", codes)" + halves, rows + ", scales)" + scales,
                "affine(4; 1, 32; zero; copied)");
  const auto stored = stored_in(rows + ")" + halves);
  EXPECT_EQ(to_string(*stored->zeros), rows + ", zeros)" + scales);
  EXPECT_EQ(to_string(values_of(*stored)),
            rows + ", codes)" + halves +
                " | dequant(8, 256; splat(1):f32[1,1], splat(-8):f32[1,1]) | dequant(1, 32; " +
                rows + ", scales)" + scales + ", " + rows + ", zeros)" + scales + ")");
}

TEST(StoredCodes, ReadsItsOwnValuesWithoutZeros) {
  const std::string rows = "@b:u8[8,144] | unblock(q4_k)";
  for (const std::string& text :
       {kStored, rows, rows + " | slice(0, 2, 4) | reshape(4, 256, 1, 1)", rows + " | cast(f16)",
        "concat(0; " + rows + ", " + rows + ") | permute(1, 0)",
        std::string("@b:u8[6,36] | unblock(q4_0) | slice(1, 32, 32)")}) {
    auto stored = stored_in(text);
    ASSERT_TRUE(stored) << text;
    stored->zeros.reset();
    stored->encoding.zero_point = false;
    const auto read = stored_codes(values_of(*stored));
    ASSERT_TRUE(read) << text;
    EXPECT_EQ(to_string(read->codes), to_string(stored->codes));
    EXPECT_EQ(to_string(read->scales), to_string(stored->scales));
    EXPECT_EQ(read->encoding, stored->encoding);
    EXPECT_FALSE(read->zeros);
  }
}

TEST(StoredCodes, RejectsChangedValuesAndCutBlocks) {
  for (const std::string& text :
       {kStored + " | slice(1, 16, 32)", kStored + " | slice(1, 0, 40)", kStored + " | scale(2)",
        kStored + " | cast(f16) | cast(f32)", kStored + " | reshape(12, 40)",
        "concat(1; " + kStored + ", " + kStored + ")", "concat(0; " + kStored + ", @p:f32[1,80])",
        std::string("@b:u8[6,32] | unpack(f4_e2m1) | dequant(1, 32; @s:f32[6,2])"),
        std::string("@b:u8[6,34] | unblock(mxfp4)"),
        std::string("@b:u8[6,36] | unblock(q4_0) | reshape(3, 2, 2, 32)"),
        std::string("concat(0; @a:u8[6,36] | unblock(q4_0), @b:u8[6,40] | unblock(q4_1))"),
        std::string("@w:f8_e4m3[6,64] | dequant(1, 32; @s:f32[6,2])")}) {
    EXPECT_FALSE(stored_in(text)) << text;
    EXPECT_TRUE(decodes_stored(parse_view(text).value())) << text;
  }
  EXPECT_FALSE(stored_in("@w:f32[6,80]"));
  EXPECT_FALSE(decodes_stored(parse_view("@w:f32[6,80] | cast(f16)").value()));
}

}  // namespace
}  // namespace moec
