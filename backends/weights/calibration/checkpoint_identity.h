// Identity of a checkpoint, independent of its location.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph/weight_table.h"

namespace moec {

// Returns a digest of the config's text and, per weight file in table order, of its size, header
// and samples of its payload. It does not depend on paths or times. Reads at most 1 MiB per file in
// addition to the header. Errors: those of RegularFile.
Result<std::string> checkpoint_identity(std::string_view config, const WeightTable& weights);

}  // namespace moec
