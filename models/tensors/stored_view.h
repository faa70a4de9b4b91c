// Views of checkpoint tensors that decode the format in which they are stored (WeightCoding).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/graph/weight_table.h"
#include "ir/model/model_config.h"
#include "models/tensors/needed_tensor.h"

namespace moec {

inline constexpr int64_t kMxBlock = 32;  // elements per scale: OCP Microscaling Formats 1.0

inline constexpr int64_t kInt4Packed = 8;  // integers per i32

// A checkpoint tensor that stores a needed tensor or a part of it.
struct StoredTensor {
  NeededTensor tensor;
  std::optional<DType> dtype;  // required type; absent: f32, f16 or bf16
  bool operator==(const StoredTensor&) const = default;
};

// The tensors that must be in the table for a needed tensor NAME. By default NAME itself;
// exceptions:
//   derived     the tensors from which the table derives NAME
//   fp8_blocks  NAME is f8_e4m3 [rows, columns]: also NAME_scale_inv [⌈rows/b0⌉, ⌈columns/b1⌉], the
//               factors of its blocks of shape [b0, b1]. Source: the DeepSeek-V3 release.
//   mxfp4       NAME [E, in, out] (all experts) is absent, but one of these is present:
//               NAME_blocks u8 [E, out, in/32, 16], two numbers per byte along the inputs, and
//               NAME_scales u8 [E, out, in/32]. Source: the gpt-oss release.
//   int4_groups NAME is a matrix [out, in] and is absent, but one of these is present:
//               NAME_packed i32 [out, in/8] and NAME_scale [out, ⌈in/group⌉], the factors of its
//               groups. Source: the format pack-quantized of compressed-tensors.
std::vector<StoredTensor> stored_tensors(const WeightTable& weights, const StoredWeights& stored,
                                         const NeededTensor& tensor);

// The possible names of tensors that store `name`. A checkpoint that stores it has at least one.
std::vector<std::string> stored_names(const StoredWeights& stored, const std::string& name);

// A view of a stored tensor in the shape of the needed tensor. Decoded values are f32; plain values
// keep the stored type. The tensor must be in the table.
WeightView stored_view(const WeightTable& weights, const StoredWeights& stored,
                       const std::string& name);

}  // namespace moec
