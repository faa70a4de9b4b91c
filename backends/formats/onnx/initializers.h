// Tensors of an ONNX graph, whose data lie in the graph or in the external data file. Raw data are
// little-endian, as ONNX requires.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph/type.h"

namespace onnx {
class TensorProto;
}

namespace moec {

// `values` holds one value for each element, or one for all; rounded to the element type.
void fill_inline(const Type& type, const std::vector<double>& values, onnx::TensorProto& tensor);

// A vector of i64.
void fill_integers(const std::vector<int64_t>& values, onnx::TensorProto& tensor);

void fill_external(const Type& type, const std::string& location, uint64_t offset, uint64_t bytes,
                   onnx::TensorProto& tensor);

}  // namespace moec
