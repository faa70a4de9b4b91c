// Tells one checkpoint from another, wherever they lie.
#pragma once

#include <string>
#include <string_view>

#include "ir/graph/weight_table.h"

namespace moec {

// A digest of the config's text, and of the size, the header and samples of the payload of each
// file of weights, in the order of the table. It does not depend on paths and times, and reads at
// most 1 MiB beside the headers of each file. Errors: those of RegularFile.
Result<std::string> checkpoint_identity(std::string_view config, const WeightTable& weights);

}  // namespace moec
