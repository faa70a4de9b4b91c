// Writes codes and scales of a checkpoint unchanged (ir/graph/weight_form.h).
#pragma once

#include "backends/weights/encode/code_writer.h"
#include "ir/graph/encoding.h"

namespace moec {

class CopiedCodes {
 public:
  // `type` is the type of the weight.
  CopiedCodes(const AffineEncoding& encoding, const Type& type, CodeForm form);

  // Accepts the next codes in C order, as f32 in tiles of any length, and writes their bytes to the
  // sink. Errors: those of the sink.
  Status add(std::span<const std::byte> tile, const TileSink& sink);

 private:
  uint8_t code_of(int number) const;

  int bits_, excess_;
  int64_t left_;          // codes that have not arrived yet
  int64_t row_, filled_;  // codes per row, without and with the padding of its last block
  int64_t in_row_ = 0;    // codes of the current row that have arrived
  CodeWriter writer_;
};

// Converts scales or zeros from f32 to the element type of their weight. Error: encode.copied_scale
// (a value is not finite or not representable in that type, so the file would decode to other
// values).
Result<std::vector<std::byte>> copied_parameters(WeightPart part,
                                                 std::span<const std::byte> parameters,
                                                 DType dtype);

}  // namespace moec
