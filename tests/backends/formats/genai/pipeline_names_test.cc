// Names of the values that stages of a pipeline exchange.
#include "backends/formats/genai/pipeline_names.h"

#include <gtest/gtest.h>

namespace moec {
namespace {

InputBinding reads(std::string port, std::string edge) {
  return {.port = std::move(port), .source = SourceKind::edge, .edge = std::move(edge)};
}

OutputBinding makes(std::string port, std::string edge) {
  return {.port = std::move(port), .sink = SinkKind::edge, .edge = std::move(edge)};
}

InputBinding mask(int64_t window) {
  return {.port = "attn_mask", .source = SourceKind::attn_mask, .window = window};
}

Manifest manifest_of(std::vector<manifest::Step> steps) {
  Manifest manifest;
  manifest.schedule = std::move(steps);
  return manifest;
}

TEST(PipelineNames, ReusePortsOfConsecutiveEdges) {
  const PipelineNames names(manifest_of({{"a", {reads("x", "embed")}, {makes("y", "A")}, {}, {}},
                                         {"b", {reads("x", "A")}, {makes("y", "B")}, {}, {}}}));
  EXPECT_EQ(names.edge("embed"), "x");
  EXPECT_EQ(names.edge("A"), "x");
  EXPECT_FALSE(names.is_renamed(reads("x", "A")));
}

// A later step still reads the first edge.
TEST(PipelineNames, SeparateEdgesThatOverlap) {
  const PipelineNames names(manifest_of({{"a", {reads("x", "embed")}, {makes("y", "A")}, {}, {}},
                                         {"b", {reads("x", "A")}, {makes("y", "B")}, {}, {}},
                                         {"c", {reads("x", "embed")}, {}, {}, {}}}));
  EXPECT_EQ(names.edge("embed"), "edge.embed");
  EXPECT_EQ(names.edge("A"), "edge.A");
  EXPECT_TRUE(names.is_renamed(reads("x", "A")));
}

TEST(PipelineNames, SeparateEdgesOfSeveralPorts) {
  const PipelineNames names(
      manifest_of({{"a", {reads("x", "embed"), reads("residual", "embed")}, {}, {}, {}}}));
  EXPECT_EQ(names.edge("embed"), "edge.embed");
}

TEST(PipelineNames, SeparateMasksOfWindows) {
  const PipelineNames same(
      manifest_of({{"a", {mask(4)}, {}, {}, {}}, {"b", {mask(4)}, {}, {}, {}}}));
  EXPECT_EQ(same.value(mask(4)), "attn_mask");
  const PipelineNames differ(
      manifest_of({{"a", {mask(4)}, {}, {}, {}}, {"b", {mask(0)}, {}, {}, {}}}));
  EXPECT_NE(differ.value(mask(4)), differ.value(mask(0)));
  EXPECT_TRUE(differ.is_renamed(mask(0)));
}

}  // namespace
}  // namespace moec
