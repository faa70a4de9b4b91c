// What a model's metadata says about the shard beyond the graph: see backends/onnx/graph_writer.h.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"

namespace onnx {
class ModelProto;
}

namespace moec {

struct OnnxMetadata {
  std::string shard;                                       // empty: not stated
  std::vector<uint32_t> sources;                           // ascending op positions
  std::map<std::string, Layout, std::less<>> layouts;      // by tensor name
  std::map<std::string, std::string, std::less<>> labels;  // IR label by tensor name
};

// Error: onnx.metadata.
Result<OnnxMetadata> read_metadata(const onnx::ModelProto& model);

}  // namespace moec
