// Extracts the codes that a checkpoint stores and a view decodes. `--weights copy` writes them
// unchanged.
#pragma once

#include <optional>

#include "ir/graph/encoding.h"
#include "ir/graph/weight_view.h"

namespace moec {

// value = code × scale, or with zeros value = (code + 2^(bits − 1) − zero) × scale.
struct StoredCodes {
  WeightView codes;   // f32: integers of encoding.bits bits, in the shape of the weight
  WeightView scales;  // f32: one per block
  std::optional<WeightView> zeros;  // f32: one per block
  AffineEncoding encoding;          // copied
};

// Returns the codes, scales and zeros that a view decodes; empty if they cannot be extracted. The
// codes must be integers of 4 or 8 bits with one scale per block (ir/graph/block_type.h for GGUF
// files), and a zero per block only with 4 bits. All other steps must keep blocks whole: slices,
// permutations, joins, and reshapes that add or remove sizes of 1 or keep the axis of the blocks. A
// cast to the view's element type is allowed.
std::optional<StoredCodes> stored_codes(const WeightView& view);

// Returns a view of the values that a file with these codes stores, in f32. With zeros, the values
// may differ from those of the original view in the last bit, because zeros are rounded.
WeightView values_of(const StoredCodes& stored);

// True if the view or a part of it decodes codes of any kind or scaled 8-bit floats.
bool decodes_stored(const WeightView& view);

}  // namespace moec
