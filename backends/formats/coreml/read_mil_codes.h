// Reads weights that a program stores as codes: constexpr_affine_dequantize, constexpr_lut_to_dense
// and constexpr_blockwise_shift_scale, documented in write_mil_codes.h.
#pragma once

#include <string>

#include "backends/formats/coreml/blob_file.h"
#include "ir/graph/ops.h"
#include "ir/graph/weight_table.h"
#include "ir/graph/weight_view.h"

namespace moec {

// Inputs of read_source() and read_coded_weight().
struct SourceContext {
  bool is_constant = false;  // read as a constant even if its value is in the file
  BlobFile& blobs;
  WeightTable& weights;  // receives the ranges of weights, and the file
};

// Adds the byte range of a weight's values, or of one of its parts, to the weight table. Returns a
// view of the range.
WeightView add_part(const std::string& name, const Type& type, uint64_t offset,
                    const SourceContext& context);

// Reads a const that ops use as a value. Returns a weight, or a constant with layout plain.
// Constants with equal elements collapse to a single value, because files store every element.
// Errors: coreml.dtype, coreml.shape, coreml.dynamic_shape, coreml.blob, coreml.value.
Result<OpData> read_source(const mlmodel::Value& value, const std::string& name,
                           const SourceContext& context);

namespace mlmodel {
class Operation;
}

// True if the operation decodes a weight.
bool is_coded_weight(const mlmodel::Operation& operation);

// Returns the view that decodes the weight. Adds the ranges of the weight's parts to the weight
// table; the codes get the name of the operation's output. Errors: coreml.argument, coreml.value,
// coreml.blob, coreml.dtype, coreml.shape.
Result<WeightView> read_coded_weight(const mlmodel::Operation& operation,
                                     const SourceContext& context);

}  // namespace moec
