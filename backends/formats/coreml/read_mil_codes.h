// Weights that a program holds as codes: constexpr_affine_dequantize, constexpr_lut_to_dense and
// constexpr_blockwise_shift_scale (backends/formats/coreml/write_mil_codes.h says which is what).
#pragma once

#include "backends/formats/coreml/source_reader.h"
#include "ir/graph/weight_view.h"

namespace moec {

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
