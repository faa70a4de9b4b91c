#include "backends/formats/genai/fused_norms.h"

#include <onnx/onnx_pb.h>

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "backends/formats/onnx/set_attributes.h"

namespace moec {
namespace {

// The steps of a norm before its product with the weight; each reads the one before.
struct Norm {
  std::string x, weight;
  float eps = 0;
  std::set<const onnx::NodeProto*> steps;
};

class NormFinder {
 public:
  explicit NormFinder(const onnx::GraphProto& part) {
    for (const onnx::TensorProto& tensor : part.initializer()) constants_[tensor.name()] = &tensor;
    for (const onnx::NodeProto& node : part.node()) {
      makers_[node.output(0)] = &node;
      for (const std::string& input : node.input()) ++uses_[input];
    }
    for (const onnx::ValueInfoProto& output : part.output()) ++uses_[output.name()];
  }

  // The norm whose product with its weight is the node, if it is one.
  std::optional<Norm> ending_in(const onnx::NodeProto& node) const {
    if (node.op_type() != "Mul" || node.input_size() != 2) return {};
    Norm norm;
    norm.weight = node.input(1);
    const onnx::NodeProto* scaled = step(norm, node.input(0), "Mul");
    if (!scaled) return {};
    norm.x = scaled->input(0);
    const onnx::NodeProto* inverse = step(norm, scaled->input(1), "Reciprocal");
    const onnx::NodeProto* root = inverse ? step(norm, inverse->input(0), "Sqrt") : nullptr;
    const onnx::NodeProto* sum = root ? step(norm, root->input(0), "Add") : nullptr;
    const onnx::NodeProto* mean = sum ? step(norm, sum->input(0), "ReduceMean") : nullptr;
    const onnx::NodeProto* square = mean ? step(norm, mean->input(0), "Mul") : nullptr;
    if (!square || square->input(0) != norm.x || square->input(1) != norm.x) return {};
    const std::optional<float> eps = number(sum->input(1));
    if (!eps || !has_factor_per_element(norm.weight, *mean)) return {};
    norm.eps = *eps;
    return norm;
  }

 private:
  // The node that makes a value with no other use.
  const onnx::NodeProto* step(Norm& norm, const std::string& value, std::string_view type) const {
    const auto maker = makers_.find(value);
    if (maker == makers_.end() || maker->second->op_type() != type || uses_.at(value) != 1)
      return nullptr;
    norm.steps.insert(maker->second);
    return maker->second;
  }

  // The value of an f32 scalar.
  std::optional<float> number(const std::string& name) const {
    const auto found = constants_.find(name);
    if (found == constants_.end() || found->second->dims_size() != 0 ||
        found->second->data_type() != onnx::TensorProto::FLOAT ||
        found->second->raw_data().size() != sizeof(float))
      return {};
    float value = 0;
    std::memcpy(&value, found->second->raw_data().data(), sizeof(value));
    return value;
  }

  // True if the weight is [1, …, 1, C], and the mean is of the axis of C and keeps it.
  bool has_factor_per_element(const std::string& weight, const onnx::NodeProto& mean) const {
    const auto found = constants_.find(weight);
    if (found == constants_.end()) return false;
    const auto& dims = found->second->dims();
    for (int axis = 0; axis + 1 < dims.size(); ++axis)
      if (dims[axis] != 1) return false;
    for (const onnx::AttributeProto& attribute : mean.attribute())
      if (attribute.name() == "axes")
        return attribute.ints_size() == 1 && attribute.ints(0) == dims.size() - 1;
    return false;
  }

  std::map<std::string_view, const onnx::TensorProto*> constants_;
  std::map<std::string_view, const onnx::NodeProto*> makers_;
  std::map<std::string, int> uses_;
};

void add_norm(const Norm& norm, const onnx::NodeProto& product, onnx::GraphProto& part) {
  onnx::NodeProto& node = *part.add_node();
  node.set_op_type("SimplifiedLayerNormalization");
  node.set_name(product.name());
  node.add_input(norm.x);
  node.add_input(norm.weight);
  node.add_output(product.output(0));
  set_int(node, "axis", -1);
  set_float(node, "epsilon", norm.eps);
}

// Numbers in the graph that no node reads.
void remove_unread(onnx::GraphProto& part) {
  std::set<std::string> read;
  for (const onnx::NodeProto& node : part.node())
    read.insert(node.input().begin(), node.input().end());
  auto& tensors = *part.mutable_initializer();
  for (int i = tensors.size(); i-- > 0;)
    if (tensors[i].data_location() != onnx::TensorProto::EXTERNAL &&
        !read.contains(tensors[i].name()))
      tensors.DeleteSubrange(i, 1);
}

}  // namespace

void fuse_norms(onnx::GraphProto& part) {
  const onnx::GraphProto old = part;
  const NormFinder finder(old);
  std::map<const onnx::NodeProto*, Norm> norms;  // by the product with the weight
  std::set<const onnx::NodeProto*> dropped;
  for (const onnx::NodeProto& node : old.node())
    if (std::optional<Norm> norm = finder.ending_in(node)) {
      dropped.insert(norm->steps.begin(), norm->steps.end());
      norms.emplace(&node, std::move(*norm));
    }
  if (norms.empty()) return;
  part.clear_node();
  for (const onnx::NodeProto& node : old.node()) {
    if (const auto norm = norms.find(&node); norm != norms.end())
      add_norm(norm->second, node, part);
    else if (!dropped.contains(&node))
      *part.add_node() = node;
  }
  remove_unread(part);
}

}  // namespace moec
