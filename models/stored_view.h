// The tensors of a checkpoint as views that decode what it stores (WeightCoding).
#pragma once

#include <optional>

#include "ir/model_config.h"
#include "ir/weight_table.h"
#include "models/needed_tensors.h"

namespace moec {

// The block factors of a needed tensor that the table has as f8_e4m3: [⌈rows/b0⌉, ⌈columns/b1⌉]
// with block [b0, b1], a tensor of the same name with "_scale_inv" behind it, by which blocks are
// multiplied. Nothing for every other tensor. Source: the DeepSeek-V3 release.
std::optional<NeededTensor> needed_factors(const WeightTable& weights, const StoredWeights& stored,
                                           const NeededTensor& tensor);

// The values of a tensor that the table has; decoded they are f32.
WeightView stored_view(const WeightTable& weights, const StoredWeights& stored, std::string name);

}  // namespace moec
