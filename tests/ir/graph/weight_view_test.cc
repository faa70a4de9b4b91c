#include "ir/graph/weight_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/text/text.h"

namespace moec {
namespace {

using testing::ElementsAre;

// Returns the type of a view, or "code: cause".
std::string type_of(const WeightView& view) {
  auto type = view_type(view);
  return type ? to_string(*type) : type.error().front().code + ": " + type.error().front().cause;
}

std::string type_of_text(std::string_view text) {
  auto view = parse_view(text);
  return view ? type_of(*view) : render(view.error());
}

TEST(ViewType, InfersTypesOfSources) {
  EXPECT_EQ(type_of_text("@a:bf16[4,8]"), "bf16[4,8]");
  EXPECT_EQ(type_of_text("@a:i64[3]"), "i64[3]");
  EXPECT_EQ(type_of_text("splat(1):f32[]"), "f32[]");
  EXPECT_EQ(type_of_text("seeded(3):f16[2,2]"), "f16[2,2]");
  EXPECT_EQ(type_of_text("concat(1; @a:f32[2,3], @b:f32[2,4], @c:f32[2,1])"), "f32[2,8]");
  EXPECT_EQ(type_of_text("concat(0; concat(1; @a:f32[1,2], @b:f32[1,2]), @c:f32[2,4])"),
            "f32[3,4]");
}

TEST(ViewType, InfersTypesOfSteps) {
  EXPECT_EQ(type_of_text("@a:f32[4,8] | slice(1, 2, 6)"), "f32[4,6]");
  EXPECT_EQ(type_of_text("@a:f32[4,8] | reshape(2, 16, 1)"), "f32[2,16,1]");
  EXPECT_EQ(type_of_text("@a:f32[1] | reshape()"), "f32[]");
  EXPECT_EQ(type_of_text("@a:f32[2,3,4] | permute(2, 0, 1)"), "f32[4,2,3]");
  EXPECT_EQ(type_of_text("@a:f8_e4m3[2] | cast(f16)"), "f16[2]");
  EXPECT_EQ(type_of_text("@a:bf16[2] | scale(0.5)"), "bf16[2]");
  EXPECT_EQ(type_of_text("@a:f8_e4m3[5,4] | dequant(2, 4; @s:f32[3,1])"), "f32[5,4]");
  EXPECT_EQ(type_of_text("@a:u8[3,4] | unpack(f4_e2m1)"), "f32[3,8]");
  EXPECT_EQ(type_of_text("@a:i32[3,4] | unpack(i4_excess8)"), "f32[3,32]");
  EXPECT_EQ(type_of_text("@a:u8[3] | unpack(f8_e8m0) | cast(f16)"), "f16[3]");
  EXPECT_EQ(type_of_text("@a:u8[2,5] | unpack(u3)"), "f32[2,13]");
  EXPECT_EQ(type_of_text("@a:u8[2,5] | unpack(u6)"), "f32[2,6]");
  EXPECT_EQ(type_of_text("@a:u8[2,5] | unpack(u1)"), "f32[2,40]");
  EXPECT_EQ(type_of_text("@a:u8[4,2] | unpack(i4) | dequant(1, 4; @s:f16[4,1], @z:u8[4,1] | "
                         "unpack(i8))"),
            "f32[4,4]");
  EXPECT_EQ(type_of_text("@a:u8[4,2] | unpack(u4) | lut(3, 4; @t:f16[2,1,16])"), "f32[4,4]");
  EXPECT_EQ(type_of_text("@a:f32[8,4] | slice(0, 4, 4) | permute(1, 0) | reshape(16) | cast(f16)"),
            "f16[16]");
}

TEST(ViewTypeErrors, C1RejectsInvalidSourceTypes) {
  EXPECT_EQ(type_of_text("@a:f32[0]"),
            "view.c1: f32[0] is not the type of a weight: expected at most 5 positive sizes and "
            "layout plain");
  EXPECT_THAT(type_of_text("@a:f32[1,1,1,1,1,1]"), testing::StartsWith("view.c1: "));
  EXPECT_THAT(type_of_text("@a:f32[2,3]{rows}"), testing::StartsWith("view.c1: "));
  EXPECT_THAT(type_of_text("@a:f32[4611686018427387904,4]"), testing::StartsWith("view.c1: "));
  EXPECT_THAT(type_of_text("concat(0; @a:u8[281474976710656], @b:u8[281474976710656])"),
              testing::StartsWith("view.c1: the joined type"));
}

TEST(ViewTypeErrors, C2RejectsMismatchedConcats) {
  EXPECT_EQ(type_of_text("concat(0;)"), "view.c2: a concat needs at least one part");
  EXPECT_EQ(type_of_text("concat(2; @a:f32[1,2])"),
            "view.c2: axis 2 is outside the rank of f32[1,2]");
  EXPECT_EQ(type_of_text("concat(-1; @a:f32[1,2])"),
            "view.c2: axis -1 is outside the rank of f32[1,2]");
  EXPECT_EQ(type_of_text("concat(0; @a:f32[1,2], @b:f32[1,3])"),
            "view.c2: parts of a concat along axis 0 do not match: f32[1,2] and f32[1,3]");
  EXPECT_THAT(type_of_text("concat(0; @a:f32[2], @b:f16[2])"), testing::StartsWith("view.c2: "));
  EXPECT_THAT(type_of_text("concat(0; @a:f32[2], @b:f32[2,1])"), testing::StartsWith("view.c2: "));
  WeightView view = concat_view(0, {tensor_view("a", {DType::f32, {2}})});
  view.source_type.dims = {3};
  EXPECT_EQ(type_of(view), "view.c2: the joined parts have type f32[2], the view states f32[3]");
}

TEST(ViewTypeErrors, C2LimitsNesting) {
  WeightView view = tensor_view("a", {DType::f32, {2}});
  for (size_t depth = 1; depth < kMaxViewNesting; ++depth) view = concat_view(0, {view});
  EXPECT_EQ(type_of(view), "f32[2]");
  EXPECT_EQ(type_of(concat_view(0, {view})), "view.c2: views nest deeper than 64");
}

TEST(ViewTypeErrors, C3RejectsSlicesOutOfRange) {
  EXPECT_EQ(type_of_text("@a:f32[4] | slice(1, 0, 1)"),
            "view.c3: axis 1 is outside the rank of f32[4]");
  EXPECT_EQ(type_of_text("@a:f32[4] | slice(0, 2, 3)"),
            "view.c3: slice [2, 2 + 3) is outside extent 4");
  EXPECT_THAT(type_of_text("@a:f32[4] | slice(0, -1, 2)"), testing::StartsWith("view.c3: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | slice(0, 0, 0)"), testing::StartsWith("view.c3: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | slice(0, 9223372036854775807, 9223372036854775807)"),
              testing::StartsWith("view.c3: "));
}

TEST(ViewTypeErrors, C4RejectsInvalidReshapes) {
  EXPECT_EQ(type_of_text("@a:f32[4] | reshape(3)"),
            "view.c4: [3] does not hold the elements of f32[4]");
  EXPECT_THAT(type_of_text("@a:f32[4] | reshape(-2, -2)"), testing::StartsWith("view.c4: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | reshape(4, 1, 1, 1, 1, 1)"),
              testing::StartsWith("view.c4: "));
}

TEST(ViewTypeErrors, C5RejectsNonPermutations) {
  EXPECT_EQ(type_of_text("@a:f32[4,2] | permute(0, 0)"),
            "view.c5: [0,0] is not a permutation of the axes of f32[4,2]");
  EXPECT_THAT(type_of_text("@a:f32[4,2] | permute(0)"), testing::StartsWith("view.c5: "));
  EXPECT_THAT(type_of_text("@a:f32[4,2] | permute(1, 2)"), testing::StartsWith("view.c5: "));
}

TEST(ViewTypeErrors, C6RejectsUnsupportedCasts) {
  EXPECT_EQ(
      type_of_text("@a:i64[4] | cast(f32)"),
      "view.c6: a cast converts f32, f16, bf16 or f8_e4m3 to f32, f16 or bf16, got i64 to f32");
  EXPECT_THAT(type_of_text("@a:f32[4] | cast(f8_e4m3)"), testing::StartsWith("view.c6: "));
}

TEST(ViewTypeErrors, C7RejectsInvalidScales) {
  EXPECT_EQ(type_of_text("@a:f32[4] | scale(inf)"),
            "view.c7: scale needs a float type and a finite factor, got f32[4] and inf");
  EXPECT_THAT(type_of_text("@a:f8_e4m3[4] | scale(2)"), testing::StartsWith("view.c7: "));
}

TEST(ViewTypeErrors, C8RejectsInvalidDequants) {
  EXPECT_EQ(type_of_text("@a:f8_e4m3[5,4] | dequant(2, 4; @s:f32[2,1])"),
            "view.c8: f8_e4m3[5,4] in blocks of [2,4] needs float scales of sizes [3,1], got "
            "f32[2,1]");
  EXPECT_THAT(type_of_text("@a:f8_e4m3[4] | dequant(0; @s:f32[4])"),
              testing::StartsWith("view.c8: "));
  EXPECT_THAT(type_of_text("@a:f8_e4m3[4] | dequant(2, 2; @s:f32[2])"),
              testing::StartsWith("view.c8: "));
  EXPECT_THAT(type_of_text("@a:i32[4] | dequant(2; @s:f32[2])"), testing::StartsWith("view.c8: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | dequant(2; @s:i32[2])"), testing::StartsWith("view.c8: "));
  WeightView view = tensor_view("a", {DType::f32, {4}});
  view.steps.emplace_back(DequantStep{{2}, {}});
  EXPECT_THAT(type_of(view), testing::StartsWith("view.c8: "));
}

TEST(ViewTypeErrors, C9RejectsInvalidGeneratedElements) {
  EXPECT_EQ(type_of_text("seeded(1):i64[4]"),
            "view.c9: seeded elements need a float type, got i64[4]");
  EXPECT_THAT(type_of_text("splat(1):u8[4]"), testing::StartsWith("view.c9: "));
  EXPECT_THAT(type_of(splat_view(std::nan(""), {DType::f32, {4}})),
              testing::StartsWith("view.c9: "));
}

TEST(ViewTypeErrors, C8RejectsInvalidOffsets) {
  EXPECT_THAT(type_of_text("@a:f32[4] | dequant(2; @s:f32[2], @z:f32[1])"),
              testing::StartsWith("view.c8: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | dequant(2; @s:f32[2], @z:u8[2])"),
              testing::StartsWith("view.c8: "));
}

TEST(ViewTypeErrors, C13RejectsInvalidLuts) {
  EXPECT_EQ(type_of_text("@a:f32[4,2] | lut(2, 2; @t:f16[2,2,16])"),
            "view.c13: f32[4,2] in blocks of [2,2] needs a float table with sizes [2,1] and a last "
            "axis of entries, got f16[2,2,16]");
  EXPECT_THAT(type_of_text("@a:f32[4] | lut(2; @t:f16[])"), testing::StartsWith("view.c13: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | lut(2; @t:u8[2,4])"), testing::StartsWith("view.c13: "));
  EXPECT_THAT(type_of_text("@a:u8[4] | lut(2; @t:f16[2,4])"), testing::StartsWith("view.c13: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | lut(0; @t:f16[4,4])"), testing::StartsWith("view.c13: "));
  EXPECT_THAT(type_of_text("@a:f32[1,1,1,1,2] | lut(1, 1, 1, 1, 1; @t:f16[1,1,1,1,2])"),
              testing::StartsWith("view.c13: "));
}

TEST(ViewTypeErrors, C15RejectsInvalidBlockwiseSteps) {
  EXPECT_EQ(type_of_text("@a:f32[4,2] | add(2, 2; @b:f16[2,1])"), "f32[4,2]");
  EXPECT_EQ(type_of_text("@a:f32[4,2] | divide(2, 2; @b:f16[2,2])"),
            "view.c15: f32[4,2] in blocks of [2,2] needs a float operand of sizes [2,1], got "
            "f16[2,2]");
  for (const char* text : {"@a:f16[4] | add(2; @b:f16[2])", "@a:f32[4] | add(0; @b:f16[4])",
                           "@a:f32[4] | add(2, 1; @b:f16[2])", "@a:f32[4] | add(2; @b:u8[2])"})
    EXPECT_THAT(type_of_text(text), testing::StartsWith("view.c15: ")) << text;
}

TEST(ViewTypeErrors, C16RejectsInvalidGathers) {
  EXPECT_EQ(type_of_text("@a:f16[4,2] | gather(1; @i:i32[7])"), "f16[4,7]");
  EXPECT_EQ(type_of_text("@a:f16[4,2] | gather(1; @i:i64[7])"),
            "view.c16: gather needs indices in an i32 vector, got i64[7]");
  EXPECT_THAT(type_of_text("@a:f16[4,2] | gather(2; @i:i32[7])"),
              testing::StartsWith("view.c16: "));
  EXPECT_THAT(type_of_text("@a:f16[4,2] | gather(1; @i:i32[1,7])"),
              testing::StartsWith("view.c16: "));
  EXPECT_THAT(type_of_text("@a:f16[4,1048576] | gather(0; @i:i32[281474976710656])"),
              testing::StartsWith("view.c1: "));
}

TEST(ViewTypeErrors, C14RejectsInvalidUnblocks) {
  EXPECT_EQ(type_of_text("@a:u8[3,2,288] | unblock(q4_k)"), "f32[3,2,512]");
  EXPECT_EQ(type_of_text("@a:u8[17] | unblock(mxfp4)"), "f32[32]");
  EXPECT_EQ(type_of_text("@a:u8[3,288] | unblock(q4_k, codes)"), "f32[3,512]");
  EXPECT_EQ(type_of_text("@a:u8[3,288] | unblock(q4_k, scales)"), "f32[3,16]");
  EXPECT_EQ(type_of_text("@a:u8[3,288] | unblock(q4_k, zeros)"), "f32[3,16]");
  EXPECT_EQ(type_of_text("@a:u8[18] | unblock(q4_0, zeros)"),
            "view.c14: blocks of q4_0 have no zeros");
  EXPECT_EQ(type_of_text("@a:u8[17] | unblock(mxfp4, codes)"),
            "view.c14: blocks of mxfp4 have no codes");
  EXPECT_EQ(type_of_text("@a:u8[3,100] | unblock(q4_k)"),
            "view.c14: unblock(q4_k) requires a view of u8 whose last axis has whole blocks of 144 "
            "bytes, got u8[3,100]");
  EXPECT_THAT(type_of_text("@a:f32[144] | unblock(q4_k)"), testing::StartsWith("view.c14: "));
  EXPECT_THAT(type_of_text("@a:u8[] | unblock(q4_k)"), testing::StartsWith("view.c14: "));
  EXPECT_THAT(type_of_text("@a:u8[279275953455104] | unblock(q2_k)"),
              testing::StartsWith("view.c14: "));
  EXPECT_EQ(type_of_text("@a:u8[66] | unblock(iq2_xxs)"), "f32[256]");
  EXPECT_EQ(type_of_text("@a:u8[18] | unblock(q2_0)"), "view.c14: unblock cannot decode q2_0");
  EXPECT_EQ(type_of_text("@a:u8[4] | unblock(f32)"), "view.c14: unblock cannot decode f32");
}

TEST(ViewTypeErrors, C10RejectsInvalidUnpacks) {
  EXPECT_EQ(type_of_text("@a:i32[4] | unpack(f4_e2m1)"),
            "view.c10: unpack(f4_e2m1) requires a view of u8 with at least one axis, got i32[4]");
  EXPECT_THAT(type_of_text("@a:u8[4] | unpack(i4_excess8)"), testing::StartsWith("view.c10: "));
  EXPECT_THAT(type_of_text("@a:f32[4] | unpack(f8_e8m0)"), testing::StartsWith("view.c10: "));
  EXPECT_THAT(type_of_text("@a:u8[] | unpack(f4_e2m1)"), testing::StartsWith("view.c10: "));
  EXPECT_THAT(type_of_text("@a:u8[281474976710656] | unpack(f4_e2m1)"),
              testing::StartsWith("view.c10: "));
}

TEST(ViewTypeErrors, C11RejectsInvalidCenters) {
  EXPECT_EQ(type_of_text("@a:bf16[4] | center()"), "f32[4]");
  EXPECT_EQ(type_of_text("@a:i32[4] | center()"),
            "view.c11: center requires a float view of at most 65536 elements, got i32[4]");
  EXPECT_THAT(type_of_text("@a:f32[65537] | center()"), testing::StartsWith("view.c11: "));
}

TEST(ViewTypeErrors, C12RejectsInvalidRemainders) {
  EXPECT_EQ(type_of_text("@a:f32[4] | center() | remainder(f16)"), "f32[4]");
  EXPECT_EQ(type_of_text("@a:f32[4] | remainder(f32)"),
            "view.c12: remainder requires a float view and f16 or bf16, got f32[4] and f32");
  EXPECT_THAT(type_of_text("@a:u8[4] | remainder(f16)"), testing::StartsWith("view.c12: "));
}

TEST(ViewTypeErrors, C17RejectsInvalidMaps) {
  EXPECT_EQ(type_of_text("@a:bf16[4] | map(neg_exp)"), "f32[4]");
  EXPECT_EQ(type_of_text("@a:i32[4] | map(plus_one)"),
            "view.c17: map requires a float view, got i32[4]");
}

// ---- then() ------------------------------------------------------------------------------------

// Adds the steps of the parsed view one by one with then().
std::string folded(std::string_view text) {
  WeightView view = parse_view(text).value();
  WeightView result = view;
  result.steps.clear();
  for (const ViewStep& step : view.steps) result = then(std::move(result), step);
  EXPECT_EQ(view_type(result), view_type(view)) << text;
  return to_string(result);
}

TEST(Then, DropsIdentitySteps) {
  EXPECT_EQ(folded("@a:f32[4,2] | slice(0, 0, 4) | reshape(4, 2) | permute(0, 1) | cast(f32) | "
                   "scale(1)"),
            "@a:f32[4,2]");
  EXPECT_EQ(folded("@a:f32[] | permute() | reshape()"), "@a:f32[]");
}

TEST(Then, KeepsEffectiveSteps) {
  for (std::string text :
       {"@a:f32[4,2] | slice(0, 1, 3)", "@a:f32[4,2] | slice(0, 0, 3)", "@a:f32[4,2] | reshape(8)",
        "@a:f32[4,2] | permute(1, 0)", "@a:f32[4,2] | cast(f16)", "@a:f32[4,2] | scale(2)",
        "@a:f32[4,2] | dequant(4, 2; splat(1):f32[1,1])", "@a:u8[4,2] | unpack(f8_e8m0)",
        "@a:u8[4,3] | unpack(u3) | lut(2, 8; @t:f16[2,1,8] | cast(f32)) | cast(f16)",
        "@a:u8[4,2] | unpack(i4) | dequant(1, 2; @s:f16[4,2], @z:f32[4,2])",
        "@a:f32[4,2] | reshape(8) | slice(0, 0, 4) | reshape(2, 2)", "@a:f32[4,2] | center()",
        "@a:f32[4,2] | remainder(f16)", "@a:u8[4,18] | unblock(q4_0)",
        "@a:f32[4] | map(log_neg) | map(minus_one)"})
    EXPECT_EQ(folded(text), text);
}

TEST(Then, MergesReshapes) {
  EXPECT_EQ(folded("@a:f32[4,2] | reshape(8) | reshape(2, 4)"), "@a:f32[4,2] | reshape(2, 4)");
  EXPECT_EQ(folded("@a:f32[4,2] | reshape(8) | reshape(4, 2)"), "@a:f32[4,2]");
}

TEST(Then, MergesPermutes) {
  EXPECT_EQ(folded("@a:f32[2,3,4] | permute(2, 0, 1) | permute(1, 2, 0)"), "@a:f32[2,3,4]");
  EXPECT_EQ(folded("@a:f32[2,3,4] | permute(2, 0, 1) | permute(0, 2, 1)"),
            "@a:f32[2,3,4] | permute(2, 1, 0)");
}

TEST(Then, MergesCastsAfterAnExactWidening) {
  EXPECT_EQ(folded("@a:bf16[4] | cast(f32) | cast(f16)"), "@a:bf16[4] | cast(f16)");
  EXPECT_EQ(folded("@a:bf16[4] | cast(f32) | cast(bf16)"), "@a:bf16[4]");
  EXPECT_EQ(folded("@a:f8_e4m3[4] | cast(f16) | cast(f32)"), "@a:f8_e4m3[4] | cast(f32)");
  EXPECT_EQ(folded("@a:f32[4] | cast(f16) | cast(f32)"), "@a:f32[4] | cast(f16) | cast(f32)");
  EXPECT_EQ(folded("@a:bf16[4] | cast(f16) | cast(f32)"), "@a:bf16[4] | cast(f16) | cast(f32)");
}

TEST(Then, MergesRepeatedly) {
  EXPECT_EQ(folded("@a:f32[4,2] | reshape(8) | permute(0) | reshape(4, 2) | cast(f16)"),
            "@a:f32[4,2] | cast(f16)");
}

TEST(Then, KeepsIllFormedStepsSeparate) {
  WeightView view = then(tensor_view("a", {DType::f32, {4}}), SliceStep{0, 2, 9});
  EXPECT_EQ(to_string(view), "@a:f32[4] | slice(0, 2, 9)");
  view = then(view, ReshapeStep{{4}});
  EXPECT_EQ(to_string(view), "@a:f32[4] | slice(0, 2, 9) | reshape(4)");
  view = then(tensor_view("a", {DType::f32, {4, 2}}), PermuteStep{{1, 0}});
  EXPECT_EQ(to_string(then(view, PermuteStep{{7}})), "@a:f32[4,2] | permute(1, 0) | permute(7)");
}

// ---- The rest ----------------------------------------------------------------------------------

// Published splitmix64 test value: seed 1234567 gives 6457827717110365317 first.
TEST(SeededElement, ReturnsTheUpperBitsOfSplitmix64) {
  EXPECT_EQ(seeded_element(1234567, 0),
            static_cast<float>(6457827717110365317u >> 40) * 0x1p-23f - 1.0f);
  EXPECT_EQ(seeded_element(5, 7), seeded_element(12, 0));
}

TEST(SeededElement, ReturnsUniformValues) {
  double sum = 0, squares = 0, least = 1, most = -1;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = seeded_element(42, static_cast<uint64_t>(i));
    sum += x;
    squares += x * x;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 0.01);
  EXPECT_GE(least, -1);
  EXPECT_LT(most, 1);
}

TEST(ForEachTensor, VisitsPartsAndScales) {
  WeightView view =
      parse_view(
          "concat(0; @a:f8_e4m3[2] | dequant(2; @s:f32[1]), @b:f32[2], splat(0):f32[1]) | "
          "dequant(5; @t:f32[1])")
          .value();
  std::vector<std::string> seen;
  for_each_tensor(view, [&](const TensorSource& tensor, const Type& type) {
    seen.push_back(tensor.name + ":" + to_string(type));
  });
  EXPECT_THAT(seen, ElementsAre("a:f8_e4m3[2]", "s:f32[1]", "b:f32[2]", "t:f32[1]"));
}

}  // namespace
}  // namespace moec
