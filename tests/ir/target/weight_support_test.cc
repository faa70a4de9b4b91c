#include "ir/target/weight_support.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::HasSubstr;

Target target_with_forms() {
  Target target;
  target.name = "own";
  target.weights = {
      {{"int8"}, {}, Severity::note, "fine", "measured", "here"},
      {{"int4:32"}, {ProjectionForm::matmul}, Severity::note, "fast", "measured", "x"},
      {{"int4:32"}, {}, Severity::error, "slow", "folklore", "y"},
      {{"int4-lut:g*"}, {}, Severity::warning, "unsure", "folklore", "z"}};
  return target;
}

WeightPolicy policy_with(std::string_view text) {
  return parse_weight_policy(text, FloatForm{}).value();
}

TEST(WeightSupport, UsesTheFirstMatchingEntry) {
  const Target target = target_with_forms();
  const WeightForm blocks = AffineForm{4, ScaleScope::block, 32};
  EXPECT_TRUE(takes_weight_form(target, AffineForm{}, ProjectionForm::conv));
  EXPECT_TRUE(takes_weight_form(target, FloatForm{}, ProjectionForm::conv));
  EXPECT_TRUE(takes_weight_form(target, blocks, ProjectionForm::matmul));
  EXPECT_FALSE(takes_weight_form(target, blocks, ProjectionForm::conv));
  EXPECT_FALSE(takes_weight_form(target, AffineForm{4, ScaleScope::row}, ProjectionForm::conv));
}

TEST(WeightSupport, AcceptsGroupsOfAnySize) {
  const Target target = target_with_forms();
  for (const int64_t rows : {1, 8, 24})
    EXPECT_TRUE(takes_weight_form(target, PaletteForm{4, rows}, ProjectionForm::conv));
  EXPECT_FALSE(takes_weight_form(target, PaletteForm{4, 0}, ProjectionForm::conv));
  EXPECT_FALSE(takes_weight_form(target, PaletteForm{2, 8}, ProjectionForm::conv));
}

TEST(WeightSupport, ChoosesProjectionForWeightForms) {
  Target target = target_with_forms();
  EXPECT_EQ(projection_for(target, policy_with("int8")), ProjectionForm::conv);
  EXPECT_EQ(projection_for(target, policy_with("int8,experts=int4")), ProjectionForm::matmul);
  EXPECT_EQ(projection_for(target, policy_with("experts=int2-lut")), ProjectionForm::conv);
}

TEST(WeightSupport, ExplainsARefusal) {
  const Target target = target_with_forms();
  EXPECT_TRUE(check_weight_forms(target, policy_with("int8,experts=int4-lut:g8")));
  const Status slow = check_weight_forms(target, policy_with("int8,experts=int4"));
  ASSERT_FALSE(slow);
  EXPECT_THAT(render(slow.error()), HasSubstr("slow (folklore: y)"));
  EXPECT_THAT(render(slow.error()), HasSubstr("int4:32 needs --form matmul"));
  const Status unknown = check_weight_forms(target, policy_with("int2-lut:tensor"));
  ASSERT_FALSE(unknown);
  EXPECT_THAT(render(unknown.error()), HasSubstr("choose one of float, int8, int4-lut:g*"));
}

}  // namespace
}  // namespace moec
