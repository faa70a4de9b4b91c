// Reads external data of ONNX initializers as byte ranges of a weight table.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"
#include "ir/graph/weight_table.h"

namespace onnx {
class TensorProto;
}

namespace moec {

// Adds the tensor's range to the table, and its file if it is new. The file must be a regular file
// directly in `folder` and contain the whole range. Error: onnx.external_data.
Status add_external(const onnx::TensorProto& tensor, const Type& type, const std::string& folder,
                    WeightTable& table);

}  // namespace moec
