// Builds one graph of a pipeline: declares its ports and converts between rows and layouts.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/manifest/manifest.h"

namespace onnx {
class ModelProto;
}

namespace moec {

// A graph and the names of its inputs and outputs.
struct GlueGraph {
  std::string bytes;  // a serialized onnx.ModelProto
  std::vector<std::string> inputs, outputs;
};

class GlueBuilder {
 public:
  GlueBuilder(const Manifest& manifest, const std::string& name);
  ~GlueBuilder();
  GlueBuilder(const GlueBuilder&) = delete;
  GlueBuilder& operator=(const GlueBuilder&) = delete;

  GraphNodes& nodes() { return nodes_; }
  onnx::GraphProto& proto();

  // Declares an input or output with the type of `port` under another name.
  void input(const std::string& name, const manifest::Port& port);
  void output(const std::string& name, const manifest::Port& port);

  // Converts between rows [T, C] and the layout of a token tensor ([1, C, T, 1], [1, C, 1, T] or
  // rows). Both return `name`.
  std::string pack(const std::string& rows, const manifest::Port& port, const std::string& name);
  std::string unpack(const std::string& value, const manifest::Port& port, const std::string& name);

  GlueGraph finish();

 private:
  std::unique_ptr<onnx::ModelProto> model_;
  GraphNodes nodes_;
};

}  // namespace moec
