// Weights that a program holds as codes: constexpr_affine_dequantize, constexpr_lut_to_dense and
// constexpr_blockwise_shift_scale (backends/formats/coreml/write_mil_codes.h says which is what).
#pragma once

#include <string>

#include "backends/formats/coreml/blob_file.h"
#include "ir/graph/ops.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Reads a const that ops use as a value.

struct SourceContext {
  bool is_constant = false;  // also where the value lies in the file
  BlobFile& blobs;
  WeightTable& weights;  // gets the range of a weight, and the file
};

// Adds the range of a weight's values, or of a part of it, and returns its view.
WeightView add_part(const std::string& name, const Type& type, uint64_t offset,
                    const SourceContext& context);

// Returns a weight, or a constant of layout plain. A constant whose elements are all equal gets a
// single value, because files store every element. Errors: coreml.dtype, coreml.shape,
// coreml.dynamic_shape, coreml.blob, coreml.value.
Result<OpData> read_source(const mlmodel::Value& value, const std::string& name,
                           const SourceContext& context);

namespace mlmodel {
class Operation;
}

// The operation gives a weight from codes.
bool is_coded_weight(const mlmodel::Operation& operation);

// The view that decodes the weight. Adds the ranges of its parts to the table of weights, those of
// the codes under the name of the operation's output. Errors: coreml.argument, coreml.value,
// coreml.blob, coreml.dtype, coreml.shape.
Result<WeightView> read_coded_weight(const mlmodel::Operation& operation,
                                     const SourceContext& context);

}  // namespace moec
