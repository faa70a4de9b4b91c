// Codes and scales of a checkpoint, written as they are (ir/graph/weight_form.h).
#pragma once

#include "backends/weights/encode/code_writer.h"
#include "ir/graph/encoding.h"

namespace moec {

class CopiedCodes {
 public:
  // The encoding is copied; `type` is that of the weight.
  CopiedCodes(const AffineEncoding& encoding, const Type& type, CodeForm form);

  // Takes the next codes in C order, f32 in tiles of any length, and gives their bytes to the sink.
  // Errors: those of the sink.
  Status add(std::span<const std::byte> tile, const TileSink& sink);

 private:
  uint8_t code_of(int number) const;

  int bits_, excess_;
  int64_t left_;          // codes that have not arrived
  int64_t row_, filled_;  // codes of a row, and with what fills up its last block
  int64_t in_row_ = 0;    // of the row that is arriving
  CodeWriter writer_;
};

// Scales, f32, in the element type of their weight. Error encode.copied_scale: one is not finite,
// or no number of that type, so that the file would decode to other values.
Result<std::vector<std::byte>> copied_scales(std::span<const std::byte> scales, DType dtype);

}  // namespace moec
