// Writes the MIL ops that decode weights. The parts of the weights are in the blob file.
//
//   constexpr_affine_dequantize      8-bit affine codes with a scale per index of one axis;
//                                    specification version 7
//   constexpr_blockwise_shift_scale  affine codes with other blocks that divide the weight;
//                                    version 9
//   constexpr_lut_to_dense           palettes; version 9
// coremltools 9 reads all three and computes the same values: code × scale, rounded to f16, and the
// entry of the palette. Sources: coremltools 9.0, mil/ops/defs/iOS16 and iOS18 constexpr_ops.py.
#pragma once

#include <optional>
#include <string_view>

#include "backends/emit/data_layout.h"
#include "backends/formats/coreml/weight_blobs.h"

namespace moec {

namespace mlmodel {
class Operation;
class Value;
}  // namespace mlmodel

// Returns the op type for a weight with this encoding: "const" if it is plain, empty if Core ML has
// no such op.
std::string_view mil_weight_op(const Encoding& encoding, const Type& type);

// Returns the lowest specification version with that op; 0 for a plain weight.
int mil_weight_version(const Encoding& encoding, const Type& type);

// Sets the type and the arguments of the op that decodes the weight. `layout` must contain the
// weight's parts.
void fill_encoded_weight(const Weight& weight, const Type& type, const DataLayout& layout,
                         mlmodel::Operation& mil);

// Fills in a value that refers to the blob file. `dtype` is MIL's DataType.
void fill_blob_value(int dtype, const Dims& dims, const DataLayout::Entry& entry,
                     mlmodel::Value& value);

}  // namespace moec
