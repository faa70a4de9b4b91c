// Top-k variants in a manifest: their requirements and both file forms.
#include "backends/manifest/top_k.h"

#include <gmock/gmock.h>

#include <functional>

#include "backends/manifest/expert_grid.h"
#include "backends/manifest/manifest_check.h"
#include "backends/manifest/manifest_file.h"
#include "tests/backends/manifest/sample.h"

namespace moec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

manifest::Shard& router_of(Manifest& manifest) {
  for (manifest::Shard& shard : manifest.shards)
    if (shard.kind == ShardKind::router) return shard;
  ADD_FAILURE() << "no router";
  return manifest.shards.front();
}

// The sample with the variants k = 2 (its default) and k = 1.
Manifest with_forms() {
  Manifest manifest = SampleManifest::make();
  manifest.top_k = manifest::TopK{2, {}, {{0.2, "1"}}, {{"chat", "1"}}, manifest::Confidence{0.9}};
  for (const int64_t k : {2, 1})
    manifest.top_k->forms.push_back({std::to_string(k), {{1, k}}, 100 * k, 10 * k});
  manifest::Shard& router = router_of(manifest);
  const std::vector<manifest::Width> widths = router.widths;
  for (manifest::Width& width : router.widths) width.top_k = std::vector<int64_t>{2};
  for (manifest::Width width : widths) {
    width.top_k = std::vector<int64_t>{1};
    width.file.path += ".k1";
    width.graph.front() = 'f';
    router.widths.push_back(width);
  }
  return manifest;
}

TEST(TopKManifest, AcceptsTheSample) {
  const Diagnostics findings = check_manifest(with_forms());
  EXPECT_TRUE(findings.empty()) << render(findings);
}

TEST(TopKManifest, RoundTripsThroughJsonAndBinary) {
  Manifest manifest = with_forms();
  manifest.capacity = manifest::Capacity{1.25};
  const auto json = to_json(manifest);
  ASSERT_TRUE(json) << render(json.error());
  const auto from_text = from_json(*json, "manifest.json");
  ASSERT_TRUE(from_text) << render(from_text.error());
  EXPECT_EQ(*from_text, manifest);
  const auto bytes = to_bytes(manifest);
  ASSERT_TRUE(bytes) << render(bytes.error());
  const auto from_binary = from_bytes(*bytes, "manifest.bin");
  ASSERT_TRUE(from_binary) << render(from_binary.error());
  EXPECT_EQ(*from_binary, manifest);
}

TEST(TopKManifest, ReadsThePreviousSchema) {
  Manifest manifest = SampleManifest::make();
  manifest.schema_version = 18;
  const auto json = to_json(manifest);
  ASSERT_TRUE(json) << render(json.error());
  EXPECT_THAT(*json, testing::Not(HasSubstr("top_k\": {")));
  const auto read = from_json(*json, "manifest.json");
  ASSERT_TRUE(read) << render(read.error());
  EXPECT_EQ(*read, manifest);
  EXPECT_TRUE(check_manifest(*read).empty());
  for (const int64_t version : {17, 20}) {
    manifest.schema_version = version;
    EXPECT_THAT(render(check_manifest(manifest)), HasSubstr("[manifest.version]")) << version;
  }
}

TEST(TopKManifest, FindsGraphsByVariant) {
  const Manifest manifest = with_forms();
  const std::vector<TopKVariant> forms = top_k_variants(manifest);
  ASSERT_EQ(forms.size(), 2u);
  Manifest copy = manifest;
  const manifest::Shard& router = router_of(copy);
  EXPECT_EQ(graph_index(router, 1, 2), 1u);
  EXPECT_EQ(graph_index(router, 1, 2, forms.data()), 1u);
  EXPECT_EQ(graph_index(router, 1, 2, &forms[1]), 3u);
  EXPECT_EQ(graph_index(manifest.shards.front(), 1, 2, &forms[1]), 1u);
  EXPECT_THAT(graphs_of_width(router, 0, 2), ElementsAre(0, 2));
  EXPECT_EQ(describe_forms(manifest), "2, 1");
  EXPECT_EQ(expert_grid(manifest).top_k, 2);
}

struct FormFault {
  const char* name;
  std::function<void(Manifest&)> make;
  const char* code;
};

class TopKFault : public testing::TestWithParam<FormFault> {};

TEST_P(TopKFault, YieldsTheExpectedCode) {
  Manifest manifest = with_forms();
  GetParam().make(manifest);
  EXPECT_THAT(render(check_manifest(manifest)), HasSubstr(GetParam().code));
}

const std::vector<FormFault> kFormFaults = {
    {"NoForms", [](Manifest& m) { m.top_k->forms.clear(); }, "manifest.top_k"},
    {"OtherName", [](Manifest& m) { m.top_k->forms[1].name = "3"; }, "manifest.top_k"},
    {"NoLayers", [](Manifest& m) { m.top_k->forms[1].layers.clear(); }, "manifest.top_k"},
    {"OtherLayer",
     [](Manifest& m) {
       for (manifest::TopKVariant& form : m.top_k->forms) form.layers[0].layer = 0;
     },
     "manifest.top_k"},
    {"TooMany",
     [](Manifest& m) {
       m.top_k->forms[1] = {"6", {{1, 6}}, 0, 0};
     },
     "manifest.top_k"},
    {"Twice", [](Manifest& m) { m.top_k->forms[1] = m.top_k->forms[0]; }, "manifest.top_k"},
    {"NegativeCost", [](Manifest& m) { m.top_k->forms[1].bytes_active = -1; }, "manifest.top_k"},
    {"RuleForNoForm", [](Manifest& m) { m.top_k->battery[0].form = "4"; }, "manifest.top_k"},
    {"RulesOutOfOrder",
     [](Manifest& m) {
       m.top_k->battery = {{0.5, "1"}, {0.2, "1"}};
     },
     "manifest.top_k"},
    {"CategoryTwice",
     [](Manifest& m) { m.top_k->categories.push_back(m.top_k->categories.front()); },
     "manifest.top_k"},
    {"Threshold", [](Manifest& m) { m.top_k->confidence->threshold = 1.5; }, "manifest.top_k"},
    {"LackingGraph", [](Manifest& m) { router_of(m).widths.pop_back(); }, "manifest."},
    {"LackingForm", [](Manifest& m) { router_of(m).widths.resize(2); }, "manifest.top_k"},
    {"OtherNumber", [](Manifest& m) { router_of(m).widths[3].top_k = std::vector<int64_t>{2}; },
     "manifest.top_k"},
    {"SameGraph", [](Manifest& m) { router_of(m).widths[3].graph = router_of(m).widths[1].graph; },
     "two variants have the same graph"},
    {"NumberInAShardWithoutRouter",
     [](Manifest& m) { m.shards.front().widths[0].top_k = std::vector<int64_t>{2}; },
     "manifest.top_k"},
    {"NumbersWithoutForms", [](Manifest& m) { m.top_k.reset(); }, "manifest."},
    {"NotTheCheckpointsOwn", [](Manifest& m) { m.top_k->own = 3; }, "is wrongly marked exact"},
    {"CapacityIsNotExact", [](Manifest& m) { m.capacity = manifest::Capacity{1.25}; },
     "is wrongly marked exact"},
    {"CapacityOfNothing",
     [](Manifest& m) {
       m.build.exact = false;
       m.capacity = manifest::Capacity{0};
     },
     "manifest.number"},
};

INSTANTIATE_TEST_SUITE_P(All, TopKFault, testing::ValuesIn(kFormFaults),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace moec
