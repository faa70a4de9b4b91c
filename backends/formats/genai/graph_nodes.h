// Adds nodes and small initializers to an ONNX graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/type.h"

namespace onnx {
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace moec {

// Equal integers share an initializer, whose name states its values: "i64[1,-1]".
class GraphNodes {
 public:
  // The graph must outlive the object.
  explicit GraphNodes(onnx::GraphProto& graph) : graph_(graph) {}

  // Adds a node with one output, which is also the name of the node.
  onnx::NodeProto& node(std::string_view type, const std::vector<std::string>& inputs,
                        const std::string& output);
  // As node(); returns `output`.
  std::string add(std::string_view type, const std::vector<std::string>& inputs,
                  const std::string& output) {
    node(type, inputs, output);
    return output;
  }
  std::string concat(const std::vector<std::string>& inputs, int64_t axis,
                     const std::string& output);
  std::string transpose(const std::string& input, const std::vector<int64_t>& perm,
                        const std::string& output);
  std::string reshape(const std::string& input, const std::vector<int64_t>& dims,
                      const std::string& output) {
    return add("Reshape", {input, integers(dims)}, output);
  }
  // Elements [begin, end) along the axis, as the op Slice defines negative and large numbers.
  std::string slice(const std::string& input, int64_t begin, int64_t end, int64_t axis,
                    const std::string& output) {
    return add("Slice", {input, integers({begin}), integers({end}), integers({axis})}, output);
  }

  // The name of an initializer: an i64 vector, an i64 scalar, or a float scalar.
  std::string integers(const std::vector<int64_t>& values);
  std::string integer(int64_t value);
  std::string number(DType dtype, double value);

 private:
  std::string initializer(const std::string& name, const Type& type,
                          const std::vector<double>& values);

  onnx::GraphProto& graph_;
  std::map<std::string, bool> known_;  // names of initializers
};

bool reads(const onnx::NodeProto& node, const std::string& value);
// True if a node of the graph reads the value.
bool has_reader(const onnx::GraphProto& graph, const std::string& value);

// The prefix of shared integers: names with it have the same values in every graph.
inline constexpr std::string_view kIntegersPrefix = "i64[";
// The end of a slice that extends to the end of its axis.
inline constexpr int64_t kToEnd = INT64_MAX;

}  // namespace moec
