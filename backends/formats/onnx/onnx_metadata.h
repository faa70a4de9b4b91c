// Reads the moec.* metadata of a model: see backends/formats/onnx/graph_writer.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/graph/type.h"
#include "ir/graph/weight_owner.h"

namespace onnx {
class ModelProto;
}

namespace moec {

struct OnnxMetadata {
  std::string shard;                                       // empty: not stated
  std::vector<uint32_t> sources;                           // ascending op positions
  std::map<std::string, Layout, std::less<>> layouts;      // by tensor name
  std::map<std::string, std::string, std::less<>> labels;  // IR label by tensor name
  std::optional<WeightOwners> owners;                      // of the external initializers
};

// Reads all entries; an absent entry leaves its field empty. Error: onnx.metadata.
Result<OnnxMetadata> read_metadata(const onnx::ModelProto& model);

}  // namespace moec
