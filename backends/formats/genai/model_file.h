// ONNX files for onnxruntime-genai.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/formats/genai/graph_nodes.h"
#include "backends/manifest/manifest.h"

namespace onnx {
class ModelProto;
class ValueInfoProto;
}  // namespace onnx

namespace moec {

// Sets the versions and operator sets of a model. `producer` is moec's version.
void begin_model(const std::string& producer, onnx::ModelProto& model);

// An input or output of a graph with the given sizes; text sizes are symbolic.
struct PortSize {
  int64_t size = 0;
  std::string name;  // not empty: symbolic
};
void declare_port(const std::string& name, DType dtype, const std::vector<PortSize>& sizes,
                  onnx::ValueInfoProto& port);
std::vector<PortSize> fixed_sizes(const std::vector<int64_t>& sizes);

// Adds an initializer that reads a table of the export, whose folder is that of the model. Returns
// its name.
std::string add_table(const std::string& name, const manifest::TableFile& file,
                      onnx::GraphProto& graph);

}  // namespace moec
