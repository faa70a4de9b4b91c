#include "ir/graph/weight_form.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::HasSubstr;

WeightForm form_named(std::string_view text) {
  auto form = parse_weight_form(text);
  EXPECT_TRUE(form.has_value()) << text;
  return form.value_or(FloatForm{});
}

std::string form_error(std::string_view text) {
  const auto form = parse_weight_form(text);
  EXPECT_FALSE(form.has_value()) << text;
  return form ? "" : render(form.error());
}

TEST(WeightForm, RoundTripsEveryText) {
  for (const char* text : {"float",           "f16",         "bf16",         "int8",
                           "int8:tensor",     "int8:expert", "int8:zero",    "int8:tensor:zero",
                           "int4:row",        "int4:32",     "int4:64",      "int4:128",
                           "int4:256",        "int8:256",    "int4:64:zero", "int1-lut:g16",
                           "int2-lut:tensor", "int3-lut:g8", "int4-lut:g32", "int6-lut:g16",
                           "int8-lut:tensor"})
    EXPECT_EQ(to_string(form_named(text)), text);
}

TEST(WeightForm, FillsInDefaults) {
  EXPECT_EQ(form_named("int8:row"), form_named("int8"));
  EXPECT_EQ(form_named("int4"), form_named("int4:32"));
  EXPECT_EQ(form_named("int4:zero"), form_named("int4:32:zero"));
  EXPECT_EQ(form_named("int4-lut"), form_named("int4-lut:g16"));
}

TEST(WeightForm, ListsFormsForUnknownTexts) {
  for (const char* text :
       {"", "int5", "int", "int8:33", "int4:16", "int8:zero:tensor", "int8:block", "int5-lut",
        "int4-lut:8", "int4-lut:g0", "int4-lut:g16:zero", "i32", "u8", "int8:", "int4:32:64"})
    EXPECT_THAT(form_error(text), HasSubstr("weights.form")) << text;
  EXPECT_THAT(form_error("in8"), HasSubstr("did you mean 'int8'?"));
  EXPECT_THAT(form_error("int5"), HasSubstr("int8:expert"));
}

EncodedMatrix matrix_of(Dims dims) { return {{DType::f32, std::move(dims)}, 1, 0, "w"}; }

std::string encoding_text(std::string_view form, const EncodedMatrix& matrix) {
  auto encoding = encoding_of(form_named(form), matrix);
  return encoding ? to_string(*encoding) : render(encoding.error());
}

TEST(WeightForm, ReturnsTheEncodingOfAMatrix) {
  const EncodedMatrix matmul = matrix_of({48, 64}), conv = matrix_of({48, 64, 1, 1});
  EXPECT_EQ(encoding_text("float", matmul), "plain");
  EXPECT_EQ(encoding_text("int8", matmul), "affine(8; 1, 64)");
  EXPECT_EQ(encoding_text("int8", conv), "affine(8; 1, 64, 1, 1)");
  EXPECT_EQ(encoding_text("int8:tensor", matmul), "affine(8; 48, 64)");
  EXPECT_EQ(encoding_text("int8:expert", matmul), "affine(8; 48, 64)");
  EXPECT_EQ(encoding_text("int4:32", conv), "affine(4; 1, 32, 1, 1)");
  EXPECT_EQ(encoding_text("int4:64:zero", matmul), "affine(4; 1, 64; zero)");
  EXPECT_EQ(encoding_text("int4-lut", conv), "palette(4; 16, 64, 1, 1)");
  EXPECT_EQ(encoding_text("int2-lut:tensor", matmul), "palette(2; 48, 64)");
}

TEST(WeightForm, ScalesEachExpertOfABank) {
  EncodedMatrix bank = matrix_of({48, 64, 1, 1});
  bank.experts = 4;
  EXPECT_EQ(encoding_text("int8:expert", bank), "affine(8; 12, 64, 1, 1)");
  bank.expert_axis = 1;
  EXPECT_EQ(encoding_text("int8:expert", bank), "affine(8; 48, 16, 1, 1)");
}

TEST(WeightForm, AllowsPartialLastBlocksInMatmuls) {
  EXPECT_EQ(encoding_text("int4:32", matrix_of({8, 48})), "affine(4; 1, 32)");
  EXPECT_THAT(encoding_text("int4:32", matrix_of({8, 48, 1, 1})), HasSubstr("weights.block"));
}

TEST(WeightForm, SuggestsGroupsThatDivideTheRows) {
  const std::string text = encoding_text("int4-lut:g16", matrix_of({24, 64}));
  EXPECT_THAT(text, HasSubstr("weights.group"));
  EXPECT_THAT(text, HasSubstr("24 output rows of w"));
  EXPECT_THAT(text, HasSubstr("1, 2, 3, 4, 6, 8, 12, 24"));
}

TEST(WeightForm, AssignsFormsToSources) {
  const auto forms = parse_weight_forms("float,a.b=int4:32,seeded(7)=int8");
  ASSERT_TRUE(forms.has_value());
  EXPECT_EQ(to_string(*forms), "float,a.b=int4:32,seeded(7)=int8");
  EXPECT_EQ(to_string(forms->of_source("a.b")), "int4:32");
  EXPECT_EQ(to_string(forms->of_source("other")), "float");
  EXPECT_FALSE(forms->all_float());
  EXPECT_TRUE(WeightForms().all_float());
  EXPECT_FALSE(parse_weight_forms("int8,a").has_value());
  EXPECT_FALSE(parse_weight_forms("int9").has_value());
}

}  // namespace
}  // namespace moec
