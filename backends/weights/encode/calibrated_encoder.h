// Encodes a weight with the inputs that it gets: its codes are chosen for the least error of its
// outputs instead of its values (GPTQ, and LNQ for palettes of few bits).
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backends/weights/encode/hessian.h"
#include "ir/graph/encoding.h"

namespace moec {

// The Hessians of consecutive ranges of inputs: one, or those of several experts whose matrices
// stand beside one another. They are taken as they are: pool those of experts first.
struct CalibratedInputs {
  std::span<const Hessian> hessians;
  int64_t axis = 1;  // of the weight, which counts the inputs
};

struct CalibratedWeight {
  std::vector<std::vector<std::byte>> parts;  // in the order of stored_parts()
  // Squared error of all outputs per token, under the shrunk Hessians: of the codes that
  // WeightEncoder gives, and of these, which is never larger.
  double nearest_error = 0, error = 0;
};

// Takes all values of a weight, in C order, and gives the same parts as WeightEncoder with other
// codes and, for palettes of at most 3 bits, other entries. Where error feedback gains nothing for
// a row of weights or for a table, its codes are those of WeightEncoder; so without any tokens all
// are. The encoding is not plain and meets check_encoding(). Errors: encode.nonfinite;
// calibrate.shape, calibrate.hessian_size, calibrate.nonfinite.
Result<CalibratedWeight> encode_calibrated(const Encoding& encoding, const Type& type,
                                           std::span<const std::byte> values,
                                           const CalibratedInputs& inputs,
                                           CodeForm form = CodeForm::signed_codes);

}  // namespace moec
