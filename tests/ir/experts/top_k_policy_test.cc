#include "ir/experts/top_k_policy.h"

#include "tests/files.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

const ExpertGrid kPolicyGrid{{0, 1}, 8, 2, 1, 1};

Result<TopKPolicy> top_k_policy_of(const std::string& text,
                                   std::string_view forms = "2,1,L0:1;L1:2") {
  const std::string path = testing::TempDir() + "/top_k_policy." + running_test() + ".json";
  write_file(path, text);
  return read_top_k_policy(path, parse_top_k_variants(forms, kPolicyGrid, "forms").value(),
                           kPolicyGrid);
}

TEST(TopKPolicy, ReadsRules) {
  const auto policy = top_k_policy_of(R"({"battery": [{"below": 0.5, "form": "L0:1;*:2"},
    {"below": 0.2, "form": "1"}], "categories": [{"category": "chat", "form": "1"}],
    "confidence": 0.75})");
  ASSERT_TRUE(policy) << render(policy.error());
  EXPECT_EQ(form_for_battery(policy->battery, 0.1), "1");
  EXPECT_EQ(form_for_battery(policy->battery, 0.2), "L0:1;L1:2");
  EXPECT_EQ(form_for_battery(policy->battery, 0.5), "");
  EXPECT_EQ(*form_for_category(policy->categories, "chat"), "1");
  EXPECT_EQ(form_for_category(policy->categories, "code"), nullptr);
  EXPECT_EQ(policy->confidence, 0.75);
  EXPECT_TRUE(top_k_policy_of("{}")->empty());
}

TEST(TopKPolicy, RejectsInvalidRules) {
  const auto battery = [](const std::string& rules) { return "{\"battery\": [" + rules + "]}"; };
  expect_error(top_k_policy_of(battery(R"({"below": 0.2, "form": "3"})")), "policy.form",
               "use one of 2, 1, L0:1;L1:2");
  expect_error(top_k_policy_of(battery(R"({"below": 0.2, "form": "1,2"})")), "policy.form", "1,2");
  expect_error(top_k_policy_of(battery(R"({"below": 0.2, "form": "9"})")), "top_k.count", "");
  for (const char* below : {"0", "-0.1", "1.5"})
    expect_error(top_k_policy_of(battery(R"({"form": "1", "below": )" + std::string(below) + "}")),
                 "policy.bad_value", "must be a charge");
  expect_error(
      top_k_policy_of(battery(R"({"below": 0.2, "form": "1"}, {"below": 0.2, "form": "2"})")),
      "policy.bad_value", "another rule");
  expect_error(top_k_policy_of(battery(R"({"below": 0.2})")), "policy.missing_field", "form");
  expect_error(top_k_policy_of(battery(R"({"below": 0.2, "form": "1", "k": 1})")),
               "policy.unknown_field", "k");
  expect_error(top_k_policy_of(R"({"categories": [{"category": "", "form": "1"}]})"),
               "policy.bad_value", "must not be empty");
  expect_error(top_k_policy_of(R"({"confidence": 0})"), "policy.bad_value", "a share above 0");
  expect_error(top_k_policy_of(R"({"confidence": 0.5})", "1"), "policy.confidence",
               "several top-k variants");
  expect_error(top_k_policy_of(R"({"battery": {}})"), "policy.bad_value", "");
  expect_error(top_k_policy_of("[]"), "policy.bad_value", "");
  expect_error(top_k_policy_of("{"), "policy.syntax", "");
  expect_error(read_top_k_policy("/nowhere.json", {}, kPolicyGrid), "policy.file", "");
}

}  // namespace
}  // namespace moec
