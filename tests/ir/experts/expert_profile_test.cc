#include "ir/experts/expert_profile.h"

#include <filesystem>
#include <fstream>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

// Three tokens with two of three experts each: 0 and 1 twice, 0 and 2 once. Layer 0 is dense.
ExpertProfile sample_profile() {
  ExpertProfile profile{
      "qwen3_moe", "ab12", "checkpoint", "cd34", 3, 2, {{"co\"de\n", 1, 2}, {"prose", 1, 1}}, {}};
  profile.layers.push_back({1,
                            3,
                            {3, 2, 1},
                            {1.75, 0.1 + 0.2, 1e-30},
                            {2.5, 3, 0},
                            {1, 0.5, 0},
                            {4, 7.25, 0},
                            {2, 1, 0},
                            {{2, 2, 0}, {1, 0, 1}}});
  profile.layers.push_back({3, 3, {2, 2, 2}, {}, {}, {}, {}, {}, {}});
  return profile;
}

std::string profile_text_with(const std::string& from, const std::string& to) {
  std::string text = expert_profile_text(sample_profile());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

void expect_bad_profile(const std::string& from, const std::string& to, const std::string& what) {
  expect_error(parse_expert_profile(profile_text_with(from, to), "p.json"), "profile.bad_value",
               what);
}

TEST(ExpertProfile, RoundTripsAllFields) {
  const auto read = parse_expert_profile(expert_profile_text(sample_profile()), "p.json");
  ASSERT_TRUE(read.has_value()) << render(read.error());
  EXPECT_EQ(*read, sample_profile());
}

TEST(ExpertProfile, FindsLayersPairsAndMeans) {
  const ExpertProfile profile = sample_profile();
  ASSERT_NE(find_layer(profile, 3), nullptr);
  EXPECT_EQ(find_layer(profile, 3)->selections, (std::vector<int64_t>{2, 2, 2}));
  EXPECT_EQ(find_layer(profile, 0), nullptr);
  EXPECT_EQ(mean_weight(profile.layers[0], 0), 1.75 / 3);
  EXPECT_EQ(mean_weight({.selections = {0}, .mass = {0}}, 0), 0);
  EXPECT_EQ(count_pairs(5), 10);
  int64_t index = 0;
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t j = i + 1; j < 5; ++j, ++index) {
      EXPECT_EQ(pair_at(i, j, 5), index);
      EXPECT_EQ(pair_at(j, i, 5), index);
    }
}

TEST(ExpertProfile, RejectsImpossibleCounts) {
  expect_bad_profile("[3, 2, 1]", "[3, 2]", "must have 3 numbers");
  expect_bad_profile("[3, 2, 1]", "[4, 1, 1]", "from 0 to 3");
  expect_bad_profile("[3, 2, 1]", "[-1, 2, 1]", "from 0 to 3");
  expect_bad_profile("[2, 2, 2]", "[3, 3, 3]", "are 9 for 3 tokens");
  expect_bad_profile("[2.5, 3, 0]", "[-2.5, 3, 0]", "at least 0");
  expect_bad_profile("[4, 7.25, 0]", "[4, 7.25]", "must have 3 numbers");
  expect_bad_profile("[2, 1, 0]", "[2, 1]", "must have 3 numbers, one per pair");
  expect_bad_profile("[2, 1, 0]", "[3, 1, 0]",
                     "is 3 for experts 0 and 1, which 3 and 2 tokens chose");
  expect_bad_profile("[2, 2, 2]", "[3, 2, 2]", "are 7 for 3 tokens");
  expect_bad_profile("[1, 0, 1]", "[0, 0, 1]", "have 2 selections of expert 0, not 3");
  expect_error(parse_expert_profile(
                   profile_text_with("[1.75, 0.30000000000000004, 1e-30]", "[0, 0, 0]"), "p.json"),
               "profile.bad_value", "is 0 for all experts");
  expect_bad_profile(R"("tokens": 3)", R"("tokens": 9007199254740992)", "too large");
  expect_bad_profile(R"("tokens": 3)", R"("tokens": 9007199254740993)", "a magnitude of at most");
}

TEST(ExpertProfile, RejectsWrongFormatsAndOrders) {
  expect_bad_profile("moec.expert_profile", "x", "must be \"moec.expert_profile\"");
  expect_bad_profile(R"("version": 1)", R"("version": 2)", "must be 1");
  expect_bad_profile(R"("experts": 3)", R"("experts": 100000)", "at most 4096");
  expect_bad_profile(R"("top_k": 2)", R"("top_k": 4)", "above the number of experts");
  expect_bad_profile(R"("layer": 3)", R"("layer": 1)", "above the previous layer's");
  expect_bad_profile(R"({"name": "prose", "sel)", R"({"name": "math", "sel)",
                     "category at this position");
  expect_error(parse_expert_profile(profile_text_with(R"("mass")", R"("mess")"), "p.json"),
               "profile.unknown_field", "mess");
  expect_error(parse_expert_profile("[", "p.json"), "profile.syntax", "");
  expect_error(parse_expert_profile(R"({"format": "moec.expert_profile"})", "p.json"),
               "profile.missing_field", "version");
}

TEST(ExpertProfile, ReadsAFileOrItsFolder) {
  const std::filesystem::path folder = testing::TempDir() + "expert_profile_test";
  std::filesystem::create_directories(folder);
  const std::string path = folder / kExpertProfileFile;
  std::ofstream(path) << expert_profile_text(sample_profile());
  EXPECT_EQ(read_expert_profile(path).value(), sample_profile());
  EXPECT_EQ(read_expert_profile(folder).value(), sample_profile());
  std::filesystem::remove_all(folder);
  expect_error(read_expert_profile(path), "profile.file", "");
}

TEST(ExpertProfile, RejectsProfilesOfOtherModels) {
  EXPECT_TRUE(check_profile(sample_profile(), {{1, 3}, 3, 2, 1, 1}, "p.json"));
  expect_error(check_profile(sample_profile(), {{1, 2, 3}, 3, 2, 1, 1}, "p.json"), "profile.model",
               "has 2 layers of 3 experts with top-k 2, the model has 3 layers of 3");
  expect_error(check_profile(sample_profile(), {{1, 3}, 4, 2, 1, 1}, "p.json"), "profile.model",
               "4");
}

}  // namespace
}  // namespace moec
