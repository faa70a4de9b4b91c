// Codes that a checkpoint stores: what `--weights copy` passes through.
#pragma once

#include <optional>

#include "ir/graph/encoding.h"

namespace moec {

// value = code × scale.
struct StoredCodes {
  WeightView codes;         // f32: integers from -8 to 7, with the sizes of the weight
  WeightView scales;        // f32: one for each block
  AffineEncoding encoding;  // copied
};

// The codes and scales that a view decodes, where they are integers of 4 bits with a scale for each
// block, and all further steps move whole blocks: slices, permutations, reshapes that only add or
// remove sizes of 1, joins, and a cast to the element type of the view. Nothing for other views.
std::optional<StoredCodes> stored_codes(const WeightView& view);

// Whether the view decodes codes or numbers of 8 bits of any kind.
bool decodes_stored(const WeightView& view);

}  // namespace moec
