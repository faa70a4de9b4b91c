#include "backends/formats/onnx/write_moe.h"

#include <fmt/format.h>
#include <onnx/onnx_pb.h>

#include "backends/formats/onnx/initializers.h"
#include "backends/formats/onnx/onnx_types.h"
#include "backends/formats/onnx/set_attributes.h"

namespace moec {

onnx::NodeProto& MoeWriter::add_node(std::string name, std::string_view type) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_name(std::move(name));
  node.set_op_type(std::string(type));
  return node;
}

std::string MoeWriter::new_tensor(const std::string& name, const Type& type) {
  std::string tensor = names_.fresh(name);
  fill_value_info(tensor, type, *graph_.add_value_info());
  return tensor;
}

void MoeWriter::add_step(std::string_view type, const std::vector<std::string>& inputs,
                         const std::string& output) {
  onnx::NodeProto& node = add_node(names_.fresh_node(netron_path(output)), type);
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(output);
}

std::string MoeWriter::tensor(ValueId value) const {
  return value.valid() ? names_.tensor(value) : std::string();
}

const std::string& MoeWriter::scalar(DType dtype, double value) {
  std::string& name = scalars_[{dtype, value}];
  if (!name.empty()) return name;
  name = names_.fresh(fmt::format("{}[{}]", dtype_name(dtype), value));
  onnx::TensorProto& tensor = *graph_.add_initializer();
  tensor.set_name(name);
  fill_inline({dtype, {}}, {value}, tensor);
  return name;
}

void MoeWriter::fill(const Moe& op, onnx::NodeProto& node) const {
  const bool clamped = op.gating.is_clamped();
  node.set_domain(kMicrosoftDomain);
  set_int(node, "k", op.top_k);
  set_string(node, "activation_type", "swiglu");
  // 1: rows of gate and up alternate.
  set_int(node, "swiglu_fusion", 1);
  set_float(node, "activation_alpha", clamped ? op.gating.alpha : 1);
  set_float(node, "activation_beta", clamped ? 1 : 0);
  if (clamped) set_float(node, "swiglu_limit", op.gating.limit);
}

onnx::NodeProto& MoeWriter::add(OpId id, const std::string& channel_axis) {
  const ValueId gate_up = moe_operands(shard_.ops[id].operands).gate_up;
  const OpId weight = shard_.values[gate_up].producer;
  const bool coded =
      weight.valid() && weights_.form_of(shard_.ops[weight]) == OnnxWeightForm::experts;
  return coded ? add_coded(id) : add_plain(id, channel_axis);
}

onnx::NodeProto& MoeWriter::add_coded(OpId id) {
  const auto& data = std::get<Moe>(shard_.ops[id].data);
  const auto of = moe_operands(shard_.ops[id].operands);
  onnx::NodeProto& node = add_node(names_.node(id), kCodedMoeType);
  const auto part = [&](ValueId weight, WeightPart part) {
    return weights_.expert_part(weight, part);
  };
  // The inputs between down_bias and the zeros are a third matrix and its parts.
  for (const std::string& input :
       {tensor(of.x), tensor(of.routing), tensor(of.gate_up), part(of.gate_up, WeightPart::scales),
        tensor(of.gate_up_bias), tensor(of.down), part(of.down, WeightPart::scales),
        tensor(of.down_bias), std::string(), std::string(), std::string(),
        part(of.gate_up, WeightPart::zeros), part(of.down, WeightPart::zeros), std::string(),
        tensor(of.routing)})
    node.add_input(input);
  fill(data, node);
  set_int(node, "normalize_routing_weights", 0);
  const auto& affine = weights_.affine(of.gate_up);
  set_int(node, "expert_weight_bits", affine.bits);
  if (const int64_t block = expert_block_size(affine, shard_.type(of.gate_up)); block > 0)
    set_int(node, "block_size", block);
  return node;
}

onnx::NodeProto& MoeWriter::add_plain(OpId id, const std::string& channel_axis) {
  const Op& op = shard_.ops[id];
  const auto of = moe_operands(op.operands);
  const Type& x = shard_.type(of.x);
  const Type& weights = shard_.type(of.routing);
  const Type per_token{x.dtype, {tokens_of(x), 1}};
  const std::string name = names_.tensor(op.results.front()), routing = tensor(of.routing);
  const std::string log = new_tensor(name + ".log", weights);
  add_step("Log", {routing}, log);
  const std::string probs = new_tensor(name + ".probs", weights);
  add_step("Max", {log, scalar(x.dtype, kNoExpert)}, probs);
  const std::string normalized = new_tensor(name + ".normalized", x);
  onnx::NodeProto& moe = add_node(names_.node(id), kMoeType);
  for (const std::string& input : {tensor(of.x), probs, tensor(of.gate_up), tensor(of.gate_up_bias),
                                   tensor(of.down), tensor(of.down_bias)})
    moe.add_input(input);
  moe.add_output(normalized);
  fill(std::get<Moe>(op.data), moe);
  set_int(moe, "normalize_routing_weights", 1);
  const std::string sum = new_tensor(name + ".sum", per_token);
  add_step("ReduceSum", {routing, channel_axis}, sum);
  const std::string any = new_tensor(name + ".any", {DType::boolean, per_token.dims});
  add_step("Greater", {sum, scalar(x.dtype, 0)}, any);
  const std::string scaled = new_tensor(name + ".scaled", x);
  add_step("Mul", {normalized, sum}, scaled);
  onnx::NodeProto& last = add_node(names_.fresh_node(netron_path(name + ".or_zero")), "Where");
  for (const std::string& input : {any, scaled, scalar(x.dtype, 0)}) last.add_input(input);
  return last;
}

}  // namespace moec
