// Root mean square norms as one node each.
#include "backends/formats/genai/fused_norms.h"

#include <gmock/gmock.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/formats/onnx/initializers.h"
#include "backends/formats/onnx/set_attributes.h"

namespace moec {
namespace {

using testing::ElementsAre;

struct NormCase {
  Dims weight{1, 4};
  int64_t axis = 1;
  bool square_of_x = true;
  bool more_uses = false;
};

// A norm of `x` as the emitter writes it, between two other nodes.
onnx::GraphProto norm_part(const NormCase& c) {
  onnx::GraphProto part;
  GraphNodes nodes(part);
  onnx::TensorProto& weight = *part.add_initializer();
  weight.set_name("w");
  fill_external({DType::f32, c.weight}, "weights.data", 0, 16, weight);
  nodes.add("Relu", {"input"}, "x");
  nodes.add("Mul", {"x", c.square_of_x ? "x" : "input"}, "square");
  set_ints(nodes.node("ReduceMean", {"square"}, "mean"), "axes", std::vector<int64_t>{c.axis});
  nodes.add("Add", {"mean", nodes.number(DType::f32, 1e-5)}, "sum");
  nodes.add("Sqrt", {"sum"}, "rms");
  nodes.add("Reciprocal", {"rms"}, "inverse");
  nodes.add("Mul", {"x", "inverse"}, "normalised");
  nodes.add("Mul", {"normalised", "w"}, "normed");
  nodes.add("Add", {"normed", c.more_uses ? "normalised" : "x"}, "out");
  part.add_output()->set_name("out");
  return part;
}

std::vector<std::string> types_of(const onnx::GraphProto& part) {
  std::vector<std::string> types;
  for (const onnx::NodeProto& node : part.node()) types.push_back(node.op_type());
  return types;
}

TEST(FusedNorms, ReplaceSevenNodes) {
  onnx::GraphProto part = norm_part({});
  fuse_norms(part);
  ASSERT_THAT(types_of(part), ElementsAre("Relu", "SimplifiedLayerNormalization", "Add"));
  const onnx::NodeProto& norm = part.node(1);
  EXPECT_THAT(norm.input(), ElementsAre("x", "w"));
  EXPECT_THAT(norm.output(), ElementsAre("normed"));
  EXPECT_EQ(norm.name(), "normed");
  EXPECT_EQ(norm.attribute(0).i(), -1);
  EXPECT_FLOAT_EQ(norm.attribute(1).f(), 1e-5f);
  // Engines warn of numbers that no node reads.
  ASSERT_EQ(part.initializer_size(), 1);
  EXPECT_EQ(part.initializer(0).name(), "w");
}

TEST(FusedNorms, KeepOtherNorms) {
  for (const NormCase& c : {NormCase{.weight = {4, 1}}, NormCase{.axis = 0},
                            NormCase{.square_of_x = false}, NormCase{.more_uses = true}}) {
    onnx::GraphProto part = norm_part(c);
    const std::string before = part.SerializeAsString();
    fuse_norms(part);
    EXPECT_EQ(part.SerializeAsString(), before);
  }
}

}  // namespace
}  // namespace moec
