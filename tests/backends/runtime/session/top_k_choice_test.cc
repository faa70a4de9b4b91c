// Selects a session's top-k variant: by name, by rule, and per token.
#include "backends/runtime/session/top_k_choice.h"

#include "tests/backends/manifest/sample.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using testing::ElementsAre;

// An incomplete manifest with only the fields that the selection reads.
Manifest choosing_manifest() {
  Manifest manifest = SampleManifest::make();
  manifest.top_k = manifest::TopK{2, {}, {{0.2, "1"}, {0.5, "3"}}, {{"chat", "1"}}, {}};
  for (const int64_t k : {2, 1, 3})
    manifest.top_k->forms.push_back({std::to_string(k), {{1, k}}, 0, 0});
  return manifest;
}

TopKChoice choice_of(const TopKRequest& request, const Manifest& manifest = choosing_manifest()) {
  auto choice = choose_top_k(manifest, request);
  EXPECT_TRUE(choice.has_value()) << render(choice.error());
  return choice.value_or(TopKChoice());
}

TEST(TopKChoice, SelectsByName) {
  EXPECT_EQ(choice_of({}).chosen()->name, "2");
  EXPECT_EQ(choice_of({"3", {}, {}, {}}).chosen()->name, "3");
  EXPECT_EQ(choice_of({"*:1", {}, {}, {}}).chosen()->name, "1");
  EXPECT_EQ(choice_of({}, SampleManifest::make()).chosen(), nullptr);
}

TEST(TopKChoice, SelectsByRule) {
  EXPECT_EQ(choice_of({"policy", 0.1, {}, {}}).chosen()->name, "1");
  EXPECT_EQ(choice_of({"policy", 0.2, {}, {}}).chosen()->name, "3");
  EXPECT_EQ(choice_of({"", 1.0, {}, {}}).chosen()->name, "2");
  EXPECT_EQ(choice_of({"policy", {}, "chat", {}}).chosen()->name, "1");
  EXPECT_EQ(choice_of({"policy", 0.1, {}, {}}).reason, "battery 0.1");
}

TEST(TopKChoice, SelectsByConfidence) {
  const TopKChoice choice = choice_of({"policy", {}, {}, 0.9});
  EXPECT_EQ(choice.threshold, 0.9);
  EXPECT_THAT(choice.forms_of(1), ElementsAre(1, 0, 2));
  EXPECT_EQ(choice.largest(), 3);
  Manifest named = choosing_manifest();
  named.top_k->confidence = manifest::Confidence{0.6};
  EXPECT_EQ(choice_of({"policy", {}, {}, {}}, named).threshold, 0.6);
  EXPECT_EQ(describe_top_k(choice, {{1, 3}, {2, 1}}),
            "top-k by confidence 0.9: 1 expert for 75.0 %, 2 experts for 25.0 % of 4 tokens in "
            "layers");
}

TEST(TopKChoice, RejectsVariantsMissingFromTheExport) {
  const Manifest manifest = choosing_manifest();
  const auto refuse = [&](const TopKRequest& request, const std::string& code,
                          const std::string& part) {
    expect_error(choose_top_k(manifest, request), code, part);
  };
  refuse({"4", {}, {}, {}}, "policy.form", "use one of 2, 1, 3");
  refuse({"0", {}, {}, {}}, "top_k.count", "");
  refuse({"policy", {}, {}, {}}, "policy.nothing", "");
  refuse({"policy", 0.1, "chat", {}}, "policy.several", "");
  refuse({"1", 0.1, {}, {}}, "policy.alone", "");
  refuse({"policy", 1.5, {}, {}}, "policy.number", "a charge from 0 to 1");
  refuse({"policy", {}, {}, 0.0}, "policy.number", "a share above 0");
  refuse({"policy", {}, "code", {}}, "policy.no_rule", "category code");
  expect_error(choose_top_k(SampleManifest::make(), {"1", {}, {}, {}}), "session.top_k",
               "--sample-top-k");
  Manifest without = choosing_manifest();
  without.top_k->battery.clear();
  expect_error(choose_top_k(without, {"policy", 0.1, {}, {}}), "policy.no_rule", "battery");
  Manifest fused = choosing_manifest();
  for (manifest::Shard& shard : fused.shards)
    if (shard.kind == ShardKind::router) shard.kind = ShardKind::moe;
  expect_error(choose_top_k(fused, {"policy", {}, {}, 0.9}), "policy.confidence", "--routing host");
  Manifest single = choosing_manifest();
  single.top_k->forms.resize(1);
  expect_error(choose_top_k(single, {"policy", {}, {}, 0.9}), "policy.confidence",
               "single top-k variant");
}

// Two tokens of four experts, with k = 1, 2 and 3. The weights of each k sum to 1.
const std::vector<Rows> kByK = {{4, {0, 1, 0, 0, 0, 0, 1, 0}},
                                {4, {0.25F, 0.75F, 0, 0, 0.45F, 0, 0.55F, 0}},
                                {4, {0.2F, 0.6F, 0, 0.2F, 0.3F, 0, 0.4F, 0.3F}}};

TEST(ConfidentChoice, SelectsTheSmallestConfidentK) {
  EXPECT_THAT(confident_choice(kByK, 0.5), ElementsAre(0, 1));
  EXPECT_THAT(confident_choice(kByK, 0.69), ElementsAre(1, 1));
  EXPECT_THAT(confident_choice(kByK, 0.75), ElementsAre(1, 2));
  EXPECT_THAT(confident_choice(kByK, 1), ElementsAre(2, 2));
  EXPECT_THAT(confident_choice(kByK, 1e-9), ElementsAre(0, 0));
}

// A token that selects only null slots has no routing weights.
TEST(ConfidentChoice, SelectsTheLargestKWithoutWeights) {
  const std::vector<Rows> none = {{2, {0, 0}}, {2, {0, 0}}};
  EXPECT_THAT(confident_choice(none, 0.5), ElementsAre(1));
}

}  // namespace
}  // namespace moec
