// The MIL ops that give encoded weights. Their parts lie in the blob file.
//
//   constexpr_affine_dequantize      affine codes of 8 bits, a scale for each index of one axis;
//                                    specification version 7
//   constexpr_blockwise_shift_scale  affine codes with other blocks, which divide the weight;
//                                    version 9
//   constexpr_lut_to_dense           palettes; version 9
//
// coremltools 9 reads all three and gives the same values: code × scale rounded to f16, and the
// table's entry. Sources: coremltools 9.0, mil/ops/defs/iOS16 and iOS18 constexpr_ops.py.
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

// The type of op that gives a weight with this encoding: "const" for a plain one. Empty where Core
// ML has none.
std::string_view mil_weight_op(const Encoding& encoding, const Type& type);

// The least specification version with that op; 0 for a plain weight.
int mil_weight_version(const Encoding& encoding, const Type& type);

// Sets the type and the arguments of the op that gives the weight. Its parts have been added to the
// layout.
void fill_encoded_weight(const Weight& weight, const Type& type, const DataLayout& layout,
                         mlmodel::Operation& mil);

// A value that lies in the blob file. `dtype` is MIL's DataType.
void fill_blob_value(int dtype, const Dims& dims, const DataLayout::Entry& entry,
                     mlmodel::Value& value);

}  // namespace moec
