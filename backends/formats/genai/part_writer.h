// Copies the graph of a part into a graph, with the names that the decoder gives to its ports.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "backends/formats/genai/graph_nodes.h"

namespace onnx {
class GraphProto;
class ValueInfoProto;
}  // namespace onnx

namespace moec {

// Names in a decoder by names in a part. Inner values and initializers without an entry get the
// prefix of the part; weights keep their names if these are free.
class PartNames {
 public:
  explicit PartNames(std::string prefix) : prefix_(std::move(prefix)) {}

  void set(const std::string& name, std::string outer) { names_[name] = std::move(outer); }
  bool has(const std::string& name) const { return names_.contains(name); }
  // The outer name. Empty names, which are omitted inputs of nodes, stay empty.
  std::string operator()(const std::string& name) const;

 private:
  std::string prefix_;
  std::map<std::string, std::string> names_;
};

class PartWriter {
 public:
  // Constants go to `nodes`, whose graph also receives the initializers of all parts.
  PartWriter(onnx::GraphProto& graph, GraphNodes& nodes) : graph_(graph), nodes_(nodes) {}

  // Adds the part's initializers to the outer graph and its nodes to `body`.
  void write(const onnx::GraphProto& part, PartNames& names, onnx::GraphProto& body);

 private:
  void write_initializers(const onnx::GraphProto& part, PartNames& names);

  onnx::GraphProto& graph_;
  GraphNodes& nodes_;
  std::set<std::string> initializers_, sizes_;  // names in use
};

// The element type of a port.
DType port_dtype(const onnx::ValueInfoProto& port);

}  // namespace moec
