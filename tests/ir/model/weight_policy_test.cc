#include "ir/model/weight_policy.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::HasSubstr;

WeightPolicy policy_of(std::string_view text) {
  auto policy = parse_weight_policy(text, AffineForm{4, ScaleScope::block, 32});
  EXPECT_TRUE(policy.has_value()) << render(policy.error());
  return policy.value_or(WeightPolicy());
}

std::string policy_error(std::string_view text) {
  const auto policy = parse_weight_policy(text, AffineForm{4, ScaleScope::block, 32});
  EXPECT_FALSE(policy.has_value()) << text;
  return policy ? "" : render(policy.error());
}

std::string form_in(const WeightPolicy& policy, WeightGroup group, int64_t layer = 2) {
  return to_string(policy.form_of(group, layer));
}

TEST(WeightPolicy, AppliesABareFormToMatrices) {
  const WeightPolicy policy = policy_of("int8");
  for (const WeightGroup group : {WeightGroup::experts, WeightGroup::attn, WeightGroup::mlp,
                                  WeightGroup::shared, WeightGroup::head})
    EXPECT_EQ(form_in(policy, group), "int8") << enum_name(group);
  for (const WeightGroup group : {WeightGroup::router, WeightGroup::embed, WeightGroup::vectors})
    EXPECT_EQ(form_in(policy, group), "float") << enum_name(group);
}

TEST(WeightPolicy, KeepsEverythingFloatByDefault) {
  EXPECT_TRUE(policy_of("").all_float());
  EXPECT_TRUE(policy_of("float").all_float());
  EXPECT_FALSE(policy_of("router=int8").all_float());
  EXPECT_EQ(to_string(policy_of("")), "float");
}

TEST(WeightPolicy, ReadsItemsByGroupAndLayers) {
  const char* text =
      "int4-lut:g16,experts=int4:32,attn=int8,router=f16,experts@0-3=int8,all@5=float";
  const WeightPolicy policy = policy_of(text);
  EXPECT_EQ(to_string(policy), text);
  EXPECT_EQ(form_in(policy, WeightGroup::experts, 4), "int4:32");
  EXPECT_EQ(form_in(policy, WeightGroup::experts, 3), "int8");
  EXPECT_EQ(form_in(policy, WeightGroup::attn, 3), "int8");
  EXPECT_EQ(form_in(policy, WeightGroup::attn, 5), "float");
  EXPECT_EQ(form_in(policy, WeightGroup::shared, 4), "int4-lut:g16");
  EXPECT_EQ(form_in(policy, WeightGroup::router, 5), "f16");
  EXPECT_EQ(form_in(policy, WeightGroup::head, -1), "int4-lut:g16");
}

TEST(WeightPolicy, PrefersSpecificThenLaterItems) {
  EXPECT_EQ(form_in(policy_of("experts=int4,int8"), WeightGroup::experts), "int4:32");
  EXPECT_EQ(form_in(policy_of("int4,int8"), WeightGroup::experts), "int8");
  EXPECT_EQ(form_in(policy_of("all@2=int8,experts=int4"), WeightGroup::experts), "int8");
  EXPECT_EQ(form_in(policy_of("experts@2=int4,all@0-9=int8"), WeightGroup::experts), "int4:32");
  EXPECT_EQ(form_in(policy_of("experts@2=int4,experts@0-9=int8"), WeightGroup::experts), "int8");
}

TEST(WeightPolicy, ExpandsThe4bitPreset) {
  const WeightPolicy policy = policy_of("4bit,attn=float");
  EXPECT_EQ(form_in(policy, WeightGroup::experts), "int4:32");
  EXPECT_EQ(form_in(policy, WeightGroup::shared), "int8");
  EXPECT_EQ(form_in(policy, WeightGroup::attn), "float");
  EXPECT_EQ(form_in(policy, WeightGroup::router), "float");
  EXPECT_EQ(to_string(policy), "4bit,attn=float");
}

TEST(WeightPolicy, ParsesAutoBits) {
  WeightPolicy policy = policy_of("auto:3.50,attn=float");
  EXPECT_TRUE(policy.chooses_bits());
  EXPECT_FALSE(policy_of("4bit").chooses_bits());
  EXPECT_EQ(form_in(policy, WeightGroup::experts), "int4:32") << "until bits are chosen";
  EXPECT_EQ(form_in(policy, WeightGroup::head), "int8");
  EXPECT_EQ(form_in(policy, WeightGroup::attn), "float");
  policy.chosen[{2, 5, "expert_up"}] = AffineForm{};
  EXPECT_EQ(to_string(policy.form_of(WeightGroup::experts, {2, 5, "expert_up"})), "int8");
  EXPECT_EQ(to_string(policy.form_of(WeightGroup::experts, {2, 5, "expert_down"})), "int4:32");
  EXPECT_EQ(policy.forms().size(), 3u) << "int4:32, int8, float";
  EXPECT_EQ(to_string(policy), "auto:3.5,attn=float");
  const WeightPolicy layers = policy_of("experts@0-1=auto:3,experts@2=int8");
  EXPECT_EQ(to_string(layers), "experts@0-1=auto:3,experts@2=int8");
  EXPECT_EQ(layers.rule_of(WeightGroup::experts, 1), layers.rules.data());
  EXPECT_EQ(layers.rule_of(WeightGroup::experts, 3), nullptr);
  for (const char* text : {"auto", "auto:", "auto:0.5", "auto:9", "auto:nan", "head=auto:4"})
    EXPECT_THAT(policy_error(text), HasSubstr("weights.auto")) << text;
  const auto none = parse_weight_policy("auto:4", FloatForm{});
  ASSERT_FALSE(none);
  EXPECT_THAT(render(none.error()), HasSubstr("has no preferred 4-bit form"));
}

TEST(WeightPolicy, RejectsUnknownWords) {
  EXPECT_THAT(policy_error("expert=int8"), HasSubstr("weights.role"));
  EXPECT_THAT(policy_error("expert=int8"), HasSubstr("did you mean 'experts'?"));
  EXPECT_THAT(policy_error("vectors=int8"), HasSubstr("norms, biases and sinks stay float"));
  EXPECT_THAT(policy_error("experts=int7"), HasSubstr("weights.form"));
  EXPECT_THAT(policy_error("int8,,int4"), HasSubstr("weights.form"));
  for (const char* text :
       {"experts@=int8", "experts@3-1=int8", "experts@a=int8", "experts@-1=int8", "head@1=int8"})
    EXPECT_THAT(policy_error(text), HasSubstr("weights.layers")) << text;
}

TEST(WeightPolicy, RejectsQuantizedEmbeddings) {
  EXPECT_THAT(policy_error("embed=int8"), HasSubstr("weights.embed"));
  EXPECT_EQ(form_in(policy_of("embed=float"), WeightGroup::embed), "float");
}

TEST(WeightPolicy, CopiesCodesOfGroups) {
  EXPECT_EQ(form_in(policy_of("copy"), WeightGroup::attn), "copy");
  EXPECT_EQ(form_in(policy_of("attn=int8,experts=copy"), WeightGroup::experts), "copy");
  EXPECT_EQ(form_in(policy_of("copy"), WeightGroup::router), "float");
  EXPECT_FALSE(policy_of("copy").all_float());
  EXPECT_EQ(to_string(policy_of("experts=copy")), "experts=copy");
}

TEST(WeightPolicy, ChecksLayersAndDtype) {
  EXPECT_TRUE(check_weight_policy(policy_of("experts@0-3=int8"), 4, DType::f32));
  const auto beyond = check_weight_policy(policy_of("experts@0-4=int8"), 4, DType::f32);
  ASSERT_FALSE(beyond);
  EXPECT_THAT(render(beyond.error()), HasSubstr("layers 0 to 3"));
  EXPECT_TRUE(check_weight_policy(policy_of("router=f16"), 4, DType::f16));
  const auto other = check_weight_policy(policy_of("router=f16"), 4, DType::f32);
  ASSERT_FALSE(other);
  EXPECT_THAT(render(other.error()), HasSubstr("--dtype f16"));
}

}  // namespace
}  // namespace moec
