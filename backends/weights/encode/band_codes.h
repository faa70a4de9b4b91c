// Chooses codes for a band of rows of a weight that minimise the error of the rows' outputs.
#pragma once

#include "backends/weights/encode/code_blocks.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct BandCodes {
  std::vector<uint8_t> codes;         // in C order, in two's complement; rows are padded
  std::vector<std::byte> parameters;  // scales or tables
  std::vector<uint8_t> zeros;         // in two's complement, one per block; may be empty
  double nearest_error = 0, error = 0;
};

// Number of refinement rounds for a table of 2^bits entries. Each round fits the table to its
// codes, then chooses codes for the new table. Above 3 bits, the gain does not justify a round.
constexpr int table_rounds(int64_t bits) { return bits <= 3 ? 4 : 0; }

// `type` is the type of the band alone; `blocks` are its code_blocks(). `metrics` must cover all
// inputs. Error: encode.nonfinite.
Result<BandCodes> code_band(const Encoding& encoding, const Type& type, const CodeBlocks& blocks,
                            std::span<const std::byte> values,
                            std::span<const ErrorMetric> metrics);

}  // namespace moec
