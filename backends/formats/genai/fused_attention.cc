#include "backends/formats/genai/fused_attention.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <set>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/formats/onnx/onnx_names.h"
#include "backends/formats/onnx/set_attributes.h"
#include "ir/base/invariant.h"
#include "ir/graph/attention_ports.h"
#include "ir/graph/port_names.h"

namespace moec {
namespace {

const onnx::ValueInfoProto* find_port(
    const google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>& ports,
    const std::string& name) {
  const auto found = std::find_if(ports.begin(), ports.end(),
                                  [&](const auto& port) { return port.name() == name; });
  return found == ports.end() ? nullptr : &*found;
}

class Inserter {
 public:
  Inserter(const FusedAttention& attention, onnx::GraphProto& part)
      : attention_(attention), part_(part), nodes_(part) {}

  // Outputs that are copies of other values come last in a part, so they move before the node.
  void insert() {
    std::vector<onnx::NodeProto> old(part_.node().begin(), part_.node().end());
    part_.clear_node();
    const auto user = std::find_if(old.begin(), old.end(), [&](const onnx::NodeProto& node) {
      return reads(node, port(kAttended));
    });
    std::set<std::string> operands = {port(kOpenQueries), port(kNewKeys), port(kNewValues),
                                      port(kOpenSinks)};
    if (attention_.masked) operands.insert(port(kOpenMask));
    const auto last = std::stable_partition(user, old.end(), [&](const onnx::NodeProto& node) {
      return operands.contains(node.output(0));
    });
    for (auto node = old.begin(); node != last; ++node) *part_.add_node() = *node;
    add_node();
    for (auto node = last; node != old.end(); ++node)
      if (node->output(0) != port(kOpenMask)) *part_.add_node() = *node;
  }

 private:
  std::string port(const std::string& name) const { return name + attention_.label; }

  void add_node() {
    std::vector<std::string> inputs = {port(kOpenQueries), port(kNewKeys),    port(kNewValues),
                                       port(kKeyState),    port(kValueState), kLastKey,
                                       kKeyCount};
    // The node rotates nothing, so it needs neither tables nor positions.
    inputs.insert(inputs.end(), {"", "", "", attention_.masked ? port(kOpenMask) : ""});
    if (find_port(part_.output(), port(kOpenSinks)))
      inputs.push_back(nodes_.reshape(port(kOpenSinks), {-1}, port("sinks")));
    while (inputs.back().empty()) inputs.pop_back();
    onnx::NodeProto& node = nodes_.node("GroupQueryAttention", inputs, port(kAttended));
    node.set_domain(kMicrosoftDomain);
    node.add_output(all_keys(attention_.label));
    node.add_output(all_values(attention_.label));
    set_int(node, "num_heads", heads());
    set_int(node, "kv_num_heads", attention_.kv_heads);
    set_float(node, "scale", 1);
    if (attention_.window > 0) set_int(node, "local_window_size", attention_.window);
  }

  int64_t heads() const {
    const onnx::ValueInfoProto* queries = find_port(part_.output(), port(kOpenQueries));
    MOEC_CHECK(queries, "{} has no open queries", part_.name());
    return queries->type().tensor_type().shape().dim(2).dim_value() / attention_.head_dim;
  }

  const FusedAttention& attention_;
  onnx::GraphProto& part_;
  GraphNodes nodes_;
};

}  // namespace

bool leaves_open(const onnx::GraphProto& part, const std::string& label) {
  return find_port(part.input(), kAttended + label) != nullptr;
}

std::string mask_of(const onnx::GraphProto& part, const std::string& label) {
  for (const onnx::NodeProto& node : part.node())
    if (node.output(0) == kOpenMask + label) return node.input(0);
  MOEC_CHECK(false, "{} has no mask of {}", part.name(), label);
}

std::string all_keys(const std::string& label) { return "all_keys" + label; }
std::string all_values(const std::string& label) { return "all_values" + label; }

void insert_attention(const FusedAttention& attention, onnx::GraphProto& part) {
  Inserter(attention, part).insert();
}

}  // namespace moec
