// The node GroupQueryAttention between the ports of a part that leaves attention open.
#include "backends/formats/genai/fused_attention.h"

#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/genai/decoder_inputs.h"
#include "backends/formats/genai/graph_nodes.h"
#include "backends/formats/genai/model_file.h"
#include "ir/graph/attention_ports.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

using testing::ElementsAre;

constexpr const char* kLabel = "_L03";

std::string port(const char* name) { return std::string(name) + kLabel; }

// A part as the writer of shards leaves it: copies of other values come last.
onnx::GraphProto open_part(bool sinks) {
  onnx::GraphProto part;
  declare_port(port(kAttended), DType::f32, {{1, {}}, {0, "tokens"}, {32, {}}}, *part.add_input());
  declare_port(port(kOpenQueries), DType::f32, {{1, {}}, {0, "tokens"}, {32, {}}},
               *part.add_output());
  if (sinks)
    declare_port(port(kOpenSinks), DType::f32, {{1, {}}, {4, {}}, {1, {}}, {1, {}}},
                 *part.add_output());
  GraphNodes nodes(part);
  nodes.node("Reshape", {"q", "sizes"}, port(kOpenQueries));
  nodes.node("Reshape", {"k", "sizes"}, port(kNewKeys));
  nodes.node("Reshape", {port(kAttended), "sizes"}, "hidden");
  nodes.node("Identity", {"attn_mask_w7"}, port(kOpenMask));
  nodes.node("Identity", {port(kNewKeys)}, port(kNewValues));
  if (sinks) nodes.node("Identity", {"sinks.weight"}, port(kOpenSinks));
  return part;
}

std::vector<std::string> outputs_of(const onnx::GraphProto& part) {
  std::vector<std::string> outputs;
  for (const onnx::NodeProto& node : part.node()) outputs.push_back(node.output(0));
  return outputs;
}

const onnx::NodeProto& fused(const onnx::GraphProto& part) {
  static const onnx::NodeProto kNone;
  for (const onnx::NodeProto& node : part.node())
    if (node.op_type() == "GroupQueryAttention") return node;
  return kNone;
}

int64_t attribute(const onnx::NodeProto& node, const std::string& name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return attribute.i();
  return -1;
}

TEST(FusedAttention, FindsOpenAttention) {
  const onnx::GraphProto part = open_part(false);
  EXPECT_TRUE(leaves_open(part, kLabel));
  EXPECT_FALSE(leaves_open(part, "_L04"));
  EXPECT_EQ(mask_of(part, kLabel), "attn_mask_w7");
}

TEST(FusedAttention, FollowsItsOperands) {
  onnx::GraphProto part = open_part(false);
  insert_attention({kLabel, 2, 8, 7, false}, part);
  EXPECT_THAT(outputs_of(part), ElementsAre(port(kOpenQueries), port(kNewKeys), port(kNewValues),
                                            port(kAttended), "hidden"));
  const onnx::NodeProto& node = fused(part);
  EXPECT_THAT(node.input(), ElementsAre(port(kOpenQueries), port(kNewKeys), port(kNewValues),
                                        port(kKeyState), port(kValueState), kLastKey, kKeyCount));
  EXPECT_THAT(node.output(), ElementsAre(port(kAttended), all_keys(kLabel), all_values(kLabel)));
  EXPECT_EQ(node.domain(), "com.microsoft");
  EXPECT_EQ(attribute(node, "num_heads"), 4);
  EXPECT_EQ(attribute(node, "kv_num_heads"), 2);
  EXPECT_EQ(attribute(node, "local_window_size"), 7);
}

TEST(FusedAttention, ReadsMaskAndSinks) {
  onnx::GraphProto part = open_part(true);
  insert_attention({kLabel, 2, 8, 0, true}, part);
  const onnx::NodeProto& node = fused(part);
  ASSERT_EQ(node.input_size(), 12);
  EXPECT_EQ(node.input(10), port(kOpenMask));
  EXPECT_EQ(node.input(11), port("sinks"));
  EXPECT_EQ(attribute(node, "local_window_size"), -1);
}

}  // namespace
}  // namespace moec
