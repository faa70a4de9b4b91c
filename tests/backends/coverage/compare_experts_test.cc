#include "backends/coverage/compare_experts.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::HasSubstr;

// Builds one expert per letter pair: its router row from `rows` and its weights from `weights`.
LayerExperts experts_of(const std::string& rows, const std::string& weights) {
  LayerExperts experts;
  for (size_t e = 0; e < rows.size(); ++e) {
    ExpertParts& expert = experts.emplace_back();
    expert.holders = {{"L03.moe", ""}};
    expert.router = {{"router.weight", std::string("row ") + rows[e]}};
    for (const char* part : {"gate", "down"})
      if (weights[e] != ' ') expert.weights.push_back({part, part + std::string(1, weights[e]), 8});
  }
  return experts;
}

struct Case {
  std::string rows, weights;  // one letter per expert; the export recorded "abcdefgh" in both
  int64_t groups;
  std::string code, cause;  // empty if accepted
};

TEST(CompareExperts, MatchesRouterRowsToExpertWeights) {
  const LayerExperts recorded = experts_of("abcdefgh", "abcdefgh");
  const KnownExperts known = {{"gateXdownX", {7, 5}}};
  for (const Case& c : std::vector<Case>{
           {"abcdefgh", "abcdefgh", 1, "", ""},
           {"hgfedcba", "hgfedcba", 1, "", ""},
           {"badcfehg", "badcfehg", 4, "", ""},  // permuted within groups
           {"cdabefgh", "cdabefgh", 4, "", ""},  // whole groups exchanged
           {"acbdefgh", "acbdefgh", 4, "coverage.permuted_experts",
            "moved to another router group"},
           {"badcfehg", "badcfegh", 4, "coverage.swapped_experts", "experts 6 and 7"},
           {"abcdefgh", "bacdefgh", 1, "coverage.swapped_experts", "experts 0 and 1"},
           {"abcdefgh", "bcadefgh", 1, "coverage.permuted_experts", "experts 0, 1, 2"},
           {"abcdefgh", "aacdefgh", 1, "coverage.duplicate_expert",
            "of expert 0 replace those of expert 1"},
           {"abcdefgh", "abc efgh", 1, "coverage.missing_expert", "expert 3 has 0 of its 2"},
           {"abcdefgh", "abcXefgh", 1, "coverage.foreign_expert", "expert 5 of layer 7"},
           {"abcdefgh", "abcYefgh", 1, "coverage.changed_expert",
            "gate differs from the exported one"},
           {"abcdefgz", "abcdefgh", 1, "coverage.router_row", "router row 7 belongs to no expert"},
           {"abcdefga", "abcdefgh", 1, "coverage.router_row", "router row 7 repeats that of"},
       }) {
    const Diagnostics findings =
        compare_experts(3, recorded, experts_of(c.rows, c.weights), c.groups, known);
    const std::string text = render(findings);
    EXPECT_EQ(findings.empty(), c.code.empty()) << c.rows << " " << c.weights << "\n" << text;
    if (c.code.empty()) continue;
    EXPECT_THAT(text, HasSubstr("error[" + c.code + "] shard L03.moe: layer 3: "));
    EXPECT_THAT(text, HasSubstr(c.cause));
  }
}

TEST(CompareExperts, AcceptsSwappedIdenticalExperts) {
  const LayerExperts recorded = experts_of("abcd", "xxyy");
  EXPECT_TRUE(compare_experts(0, recorded, experts_of("badc", "xxyy"), 1, {}).empty());
  EXPECT_FALSE(compare_experts(0, recorded, experts_of("abcd", "xyxy"), 1, {}).empty());
}

TEST(CompareExperts, NamesTruncatedWeights) {
  const LayerExperts recorded = experts_of("abcd", "abcd");
  LayerExperts found = experts_of("abcd", "aZcd");
  found[1].weights[0].bytes = 4;
  EXPECT_THAT(
      render(compare_experts(0, recorded, found, 1, {})),
      HasSubstr("error[coverage.truncated_expert] shard L03.moe: layer 0: expert 1: gate has 4 "
                "bytes, expected 8 as in other experts; down differs from the exported one"));
  found = experts_of("abcd", "abcd");
  found[2].weights[1].digest = "cut";
  found[2].weights[1].zero_tail = 100;
  EXPECT_THAT(render(compare_experts(0, recorded, found, 1, {})),
              HasSubstr("error[coverage.truncated_expert] shard L03.moe: layer 0: expert 2: down "
                        "ends in 100 zero bytes"));
}

}  // namespace
}  // namespace moec
