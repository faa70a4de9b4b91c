#include "models/cluster/cluster_nodes.h"

#include <gmock/gmock.h>

namespace moec {
namespace {

using testing::HasSubstr;

std::string reading_of(const std::string& text) {
  const auto nodes = parse_cluster_nodes(text, "cluster.json");
  return nodes ? "fine" : render(nodes.error());
}

TEST(ClusterNodes, ReadsAllFields) {
  const auto nodes = parse_cluster_nodes(
      R"({"nodes": [{"name": "a", "memory": "24GB", "bandwidth": "936GB/s", "tflops": 71,
                     "link": "10Gbit/s", "latency_ms": 0.2, "min_experts": 32},
                    {"name": "b", "memory": "16GiB", "bandwidth": "0.4TB/s", "link": "1GB/s"}]})",
      "cluster.json");
  ASSERT_TRUE(nodes) << render(nodes.error());
  ASSERT_EQ(nodes->size(), 2u);
  EXPECT_EQ((*nodes)[0], (ClusterNode{"a", 24'000'000'000, 936e9, 71e12, 1.25e9, 0.2 / 1e3, 32}));
  EXPECT_EQ((*nodes)[1], (ClusterNode{"b", int64_t{16} << 30, 400e9, 0, 1e9, 0, 0}));
}

TEST(ClusterNodes, RejectsMeaninglessNodes) {
  const auto one = [](const std::string& fields) {
    return reading_of(R"({"nodes": [{"name": "a", )" + fields + "}]}");
  };
  EXPECT_EQ(one(R"("memory": "1GB")"), "fine");
  for (const char* fields :
       {R"("memory": "0GB")", R"("memory": "-1GB")", R"("memory": "nanGB")", R"("memory": "much")",
        R"("memory": "1GB", "bandwidth": "0GB/s")", R"("memory": "1GB", "bandwidth": "-1GB/s")",
        R"("memory": "1GB", "bandwidth": "nanGB/s")", R"("memory": "1GB", "bandwidth": "9GB")",
        R"("memory": "1GB", "bandwidth": "9/s")", R"("memory": "1GB", "link": "infGbit/s")",
        R"("memory": "1GB", "link": "9bit")", R"("memory": "1GB", "tflops": 0)",
        R"("memory": "1GB", "tflops": 1e300)", R"("memory": "1GB", "tflops": -3)",
        R"("memory": "1GB", "latency_ms": 1)", R"("memory": "1GB", "min_experts": 0)",
        R"("memory": "1GB", "min_experts": 5000)", R"("memory": "1GB", "min_experts": 1.5)",
        R"("memory": 24)"})
    EXPECT_THAT(one(fields), HasSubstr("[cluster.bad_value]")) << fields;
  EXPECT_THAT(one(R"("memory": "1GB", "tflops": NaN)"), HasSubstr("[cluster.syntax]"));
  EXPECT_THAT(one(R"("memory": "1GB", "speed": 1)"), HasSubstr("[cluster.unknown_field]"));
  EXPECT_THAT(one(R"("memory": "1GB", "memory": "2GB")"), HasSubstr("[cluster.duplicate_key]"));
  EXPECT_THAT(one(R"("tflops": 1)"), HasSubstr("[cluster.missing_field]"));
  EXPECT_THAT(reading_of(R"({"nodes": []})"), HasSubstr("[cluster.bad_value]"));
  EXPECT_THAT(reading_of(R"({"nodes": [{"name": "", "memory": "1GB"}]})"),
              HasSubstr("[cluster.bad_value]"));
  EXPECT_THAT(reading_of("[]"), HasSubstr("[cluster.bad_value]"));
}

TEST(ClusterNodes, NamesTheLineOfDifferences) {
  const std::string first = "{\"nodes\": [{\"name\": \"a\", \"memory\": \"1GB\"},\n ";
  EXPECT_THAT(reading_of(first + R"({"name": "a", "memory": "1GB"}]})"),
              AllOf(HasSubstr("cluster.json:2"), HasSubstr("another node")));
  EXPECT_THAT(reading_of(first + R"({"name": "b", "memory": "1GB", "bandwidth": "1GB/s"}]})"),
              HasSubstr("nodes[1].bandwidth\" is given, but the first node lacks it"));
}

}  // namespace
}  // namespace moec
