// The codes of some rows of a weight, for the least error of their outputs.
#pragma once

#include "backends/weights/encode/code_blocks.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct BandCodes {
  std::vector<uint8_t> codes;         // in C order, in two's complement; rows are filled up
  std::vector<std::byte> parameters;  // scales or tables
  std::vector<uint8_t> zeros;         // in two's complement, one for each block; may be empty
  double nearest_error = 0, error = 0;
};

// How often tables of so many bits are fitted to their codes and codes found for the new tables.
// With more bits there is little left to gain.
constexpr int table_rounds(int64_t bits) { return bits <= 3 ? 4 : 0; }

// `type` is that of the rows, which are a weight of their own; `blocks` are its code_blocks(). The
// metrics are of all inputs. Errors: encode.nonfinite.
Result<BandCodes> code_band(const Encoding& encoding, const Type& type, const CodeBlocks& blocks,
                            std::span<const std::byte> values,
                            std::span<const ErrorMetric> metrics);

}  // namespace moec
