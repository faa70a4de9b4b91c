// The tensors of a checkpoint as views that decode what it stores (WeightCoding).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/plan/model_config.h"
#include "models/tensors/needed_tensors.h"

namespace moec {

inline constexpr int64_t kMxBlock = 32;  // elements with one scale: OCP Microscaling Formats 1.0

inline constexpr int64_t kInt4Packed = 8;  // integers in an i32

// A tensor of a checkpoint that holds a needed one, or a part of it.
struct StoredTensor {
  NeededTensor tensor;
  std::optional<DType> dtype;  // that it must have; nothing: f32, f16 or bf16
  bool operator==(const StoredTensor&) const = default;
};

// What the table must hold for a needed tensor NAME: NAME itself, but
//   fp8_blocks  where it is f8_e4m3 of [rows, columns]: also NAME_scale_inv, the block factors
//               [⌈rows/b0⌉, ⌈columns/b1⌉] with block [b0, b1], by which blocks are multiplied.
//               Source: the DeepSeek-V3 release.
//   mxfp4       where there is no NAME but one of these, and NAME is of all experts [E, in, out]:
//               NAME_blocks u8 [E, out, in/32, 16], a byte two numbers along the inputs, and
//               NAME_scales u8 [E, out, in/32]. Source: the gpt-oss release.
//   int4_groups where there is no NAME but one of these, and NAME is a matrix [out, in]:
//               NAME_packed i32 [out, in/8], and NAME_scale [out, ⌈in/group⌉], by which groups are
//               multiplied. Source: the format pack-quantized of compressed-tensors.
std::vector<StoredTensor> stored_tensors(const WeightTable& weights, const StoredWeights& stored,
                                         const NeededTensor& tensor);

// The names of which a checkpoint has at least one if it stores the tensor `name`.
std::vector<std::string> stored_names(const StoredWeights& stored, const std::string& name);

// The values of a tensor that the table stores, in the needed tensor's shape; decoded they are f32.
WeightView stored_view(const WeightTable& weights, const StoredWeights& stored,
                       const std::string& name);

}  // namespace moec
