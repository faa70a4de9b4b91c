#include "backends/formats/onnx/read_moe.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/onnx/node_attributes.h"
#include "backends/formats/onnx/onnx_names.h"
#include "backends/formats/onnx/write_moe.h"
#include "ir/base/parse_number.h"

namespace moec {
namespace {

using onnx::NodeProto;

bool is_moe(const NodeProto& node, std::string_view type) {
  return node.domain() == kMicrosoftDomain && node.op_type() == type && node.output_size() == 1;
}

// The input at this position; empty if it is absent.
std::string input_of(const NodeProto& node, int position) {
  return position < node.input_size() ? node.input(position) : std::string();
}

// Producers of tensors and their single users in the default domain.
class Neighbours {
 public:
  explicit Neighbours(const onnx::GraphProto& graph) {
    for (const NodeProto& node : graph.node()) {
      for (const std::string& output : node.output()) producers_.emplace(output, &node);
      for (const std::string& input : node.input()) users_.emplace(input, &node);
    }
  }
  const NodeProto* producer(const std::string& tensor, std::string_view type) const {
    const auto found = producers_.find(tensor);
    return found == producers_.end() ? nullptr : of_type(found->second, type);
  }
  const NodeProto* user(const std::string& tensor, std::string_view type) const {
    return users_.count(tensor) == 1 ? of_type(users_.find(tensor)->second, type) : nullptr;
  }

 private:
  static const NodeProto* of_type(const NodeProto* node, std::string_view type) {
    return node->domain().empty() && node->op_type() == type ? node : nullptr;
  }
  std::map<std::string_view, const NodeProto*> producers_;
  std::multimap<std::string_view, const NodeProto*> users_;
};

// The nodes around a MoE, in the order in which the writer adds them; empty if one of them is
// missing.
std::vector<const NodeProto*> around(const NodeProto& moe, const Neighbours& neighbours) {
  const NodeProto* probs = neighbours.producer(input_of(moe, 1), "Max");
  const NodeProto* log = probs ? neighbours.producer(input_of(*probs, 0), "Log") : nullptr;
  const NodeProto* scaled = neighbours.user(moe.output(0), "Mul");
  const NodeProto* sum = scaled ? neighbours.producer(input_of(*scaled, 1), "ReduceSum") : nullptr;
  const NodeProto* last =
      scaled && scaled->output_size() == 1 ? neighbours.user(scaled->output(0), "Where") : nullptr;
  const NodeProto* any = last ? neighbours.producer(input_of(*last, 0), "Greater") : nullptr;
  if (!log || !sum || !any || last->output_size() != 1) return {};
  // Both read the same routing weights.
  if (input_of(*log, 0) != input_of(*sum, 0) || input_of(*any, 0) != input_of(*scaled, 1))
    return {};
  return {log, probs, &moe, sum, any, scaled, last};
}

// The value of the attribute that the writer rounded to f32: the shortest number that rounds to it.
Result<double> rounded(Attributes& attributes, const std::string& name, double otherwise) {
  MOEC_ASSIGN(const float value, attributes.number(name, static_cast<float>(otherwise)));
  return parse_number<double>(fmt::format("{}", value)).value_or(otherwise);
}

Result<Gating> read_gating(Attributes& attributes) {
  MOEC_TRY(attributes.must_be("activation_type", std::string("swiglu")));
  MOEC_TRY(attributes.must_be("swiglu_fusion", 1));
  const bool clamped = attributes.has("swiglu_limit");
  MOEC_ASSIGN(const double alpha, rounded(attributes, "activation_alpha", 1));
  MOEC_ASSIGN(const double limit, rounded(attributes, "swiglu_limit", 0));
  MOEC_TRY(attributes.must_be_number("activation_beta", clamped ? 1.0F : 0.0F));
  if (clamped) return Gating{Activation::clamped_swiglu, limit, alpha};
  MOEC_TRY(attributes.must_be_number("activation_alpha", 1.0F));
  return Gating{};
}

}  // namespace

bool is_coded_moe(const NodeProto& node) { return is_moe(node, kCodedMoeType); }

MoeReader::MoeReader(const onnx::GraphProto& graph) {
  const Neighbours neighbours(graph);
  for (const NodeProto& node : graph.node()) {
    std::vector<const NodeProto*> nodes;
    if (is_coded_moe(node)) nodes = {&node};
    if (is_moe(node, kMoeType)) nodes = around(node, neighbours);
    if (nodes.empty()) continue;
    for (const NodeProto* part : nodes) by_node_.emplace(part, all_.size());
    const std::string routing = input_of(*nodes.front(), nodes.size() == 1 ? 1 : 0);
    all_.push_back({&node, nodes.back(), routing});
  }
}

const MoeNodes* MoeReader::of_node(const NodeProto& node) const {
  const auto found = by_node_.find(&node);
  return found == by_node_.end() ? nullptr : &all_[found->second];
}

Result<Moe> read_moe(const MoeNodes& nodes) {
  const NodeProto& node = *nodes.moe;
  const bool coded = is_coded_moe(node);
  Attributes attributes(node);
  Moe op;
  MOEC_ASSIGN(op.top_k, attributes.integer("k"));
  MOEC_ASSIGN(op.gating, read_gating(attributes));
  MOEC_TRY(attributes.must_be("normalize_routing_weights", coded ? 0 : 1));
  if (coded) {
    // read_coded_weight() reads these.
    MOEC_TRY(attributes.integer("expert_weight_bits"));
    MOEC_TRY(attributes.integer("block_size", 0));
  }
  MOEC_TRY(attributes.finish());
  bool known = coded ? input_of(node, 14) == input_of(node, 1) : node.input_size() <= 6;
  for (const int third : {8, 9, 10, 13}) known &= input_of(node, third).empty();
  if (known) return op;
  return fail("onnx.op",
              fmt::format("{} has inputs other than two matrices, their biases and the routing "
                          "weights",
                          node.op_type()),
              "export the model again", {.op = node.name()});
}

std::vector<std::string> moe_tensors(const MoeNodes& nodes) {
  const NodeProto& node = *nodes.moe;
  const bool coded = is_coded_moe(node);
  const int down = coded ? kDownInputs.codes : 4, gate_up_bias = coded ? 4 : 3;
  const int down_bias = coded ? 7 : 5;
  std::vector<std::string> tensors = {input_of(node, 0), nodes.routing, input_of(node, 2),
                                      input_of(node, down)};
  for (const int bias : {gate_up_bias, down_bias})
    if (!input_of(node, bias).empty()) tensors.push_back(input_of(node, bias));
  return tensors;
}

}  // namespace moec
