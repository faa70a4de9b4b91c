// Parts of decoder graphs: sizes that depend on the numbers of tokens become symbolic, and other
// differences between the samples are errors.
#include "backends/formats/genai/decoder_part.h"

#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include <functional>

#include "ir/graph/builder.h"

namespace moec {
namespace {

using Body = std::function<void(Builder&, const GraphPoint&)>;

Result<onnx::GraphProto> part_of(const Body& body) {
  std::vector<Shard> shards;
  PartSamples samples;
  for (const GraphPoint& point : kSamplePoints) {
    Builder b("L00.attn", Form::static_ops);
    body(b, point);
    shards.push_back(b.finish());
    shards.back().form = Form::placed;
    samples.points.push_back(point);
  }
  for (const Shard& shard : shards) samples.shards.push_back(&shard);
  const ShardWidth width{37, &shards.front(), {}};
  MOEC_ASSIGN(const std::string bytes,
              decoder_part(samples, {"attn/L00.data", {&width, 1}, {}}, {}));
  onnx::GraphProto graph;
  graph.ParseFromString(bytes);
  return graph;
}

const onnx::NodeProto* find_node(const onnx::GraphProto& graph, const std::string& type) {
  for (const onnx::NodeProto& node : graph.node())
    if (node.op_type() == type) return &node;
  return nullptr;
}

std::string error_of(const Body& body) {
  const auto part = part_of(body);
  return part ? "" : part.error().front().code;
}

TEST(DecoderPart, InfersReshapedTokens) {
  const auto graph = part_of([](Builder& b, const GraphPoint& at) {
    ValueId x = b.input("x", {DType::f32, {at.tokens, 8}});
    b.output("y", b.reshape(x, {1, at.tokens, 4, 2}));
  });
  ASSERT_TRUE(graph);
  EXPECT_EQ(find_node(*graph, "Reshape")->input(1), "i64[1,-1,4,2]");
  EXPECT_EQ(graph->input(0).type().tensor_type().shape().dim(0).dim_param(), "tokens");
}

// Two sizes of the result are open: one is copied from the same axis of the input.
TEST(DecoderPart, CopiesEqualAxes) {
  const auto graph = part_of([](Builder& b, const GraphPoint& at) {
    const int64_t total = at.tokens + at.past;
    ValueId x = b.input("x", {DType::f32, {1, 2, 3 * at.tokens, total}});
    b.output("y", b.reshape(x, {1, 6, at.tokens, total}));
  });
  ASSERT_TRUE(graph);
  EXPECT_EQ(find_node(*graph, "Reshape")->input(1), "i64[1,6,-1,0]");
}

TEST(DecoderPart, SlicesFromTheEnd) {
  const auto graph = part_of([](Builder& b, const GraphPoint& at) {
    ValueId x = b.input("x", {DType::f32, {at.tokens, 8}});
    b.output("y", b.slice(x, 0, at.tokens - 3, 3));
  });
  ASSERT_TRUE(graph);
  const onnx::NodeProto& slice = *find_node(*graph, "Slice");
  EXPECT_EQ(slice.input(1), "i64[-3]");
  EXPECT_EQ(slice.input(2), "i64[9223372036854775807]");
}

TEST(DecoderPart, ExpandsToShapeTensors) {
  const auto graph = part_of([](Builder& b, const GraphPoint& at) {
    ValueId x = b.input("x", {DType::f32, {at.tokens, 8}});
    b.output("y", b.add(x, b.constant({DType::f32, {at.tokens, 8}}, {2})));
  });
  ASSERT_TRUE(graph);
  EXPECT_EQ(find_node(*graph, "Expand")->input(1), "size.[tokens,8]");
}

TEST(DecoderPart, RejectsConstantsPerToken) {
  EXPECT_EQ(error_of([](Builder& b, const GraphPoint& at) {
              ValueId x = b.input("x", {DType::f32, {at.tokens, 8}});
              std::vector<double> counts;
              for (int64_t t = 0; t < at.tokens; ++t) counts.push_back(static_cast<double>(t));
              b.output("y", b.add(x, b.constant({DType::f32, {at.tokens, 1}}, counts)));
            }),
            "genai.structure");
}

TEST(DecoderPart, RejectsOtherNodes) {
  EXPECT_EQ(error_of([](Builder& b, const GraphPoint& at) {
              ValueId x = b.input("x", {DType::f32, {at.tokens, 8}});
              b.output("y", b.unary(at.tokens > 40 ? UnaryFn::exp : UnaryFn::tanh, x));
            }),
            "genai.structure");
}

}  // namespace
}  // namespace moec
