// Fills tensors of an ONNX graph, with data in the graph or in the external data file. Raw data are
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

// `values` contains one value per element, or a single value for all elements. Rounds the values to
// the element type.
void fill_inline(const Type& type, const std::vector<double>& values, onnx::TensorProto& tensor);

// Fills an i64 vector.
void fill_integers(const std::vector<int64_t>& values, onnx::TensorProto& tensor);

void fill_external(const Type& type, const std::string& location, uint64_t offset, uint64_t bytes,
                   onnx::TensorProto& tensor);

}  // namespace moec
