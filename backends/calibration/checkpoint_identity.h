// Tells one checkpoint from another, wherever they lie.
#pragma once

#include <string>

#include "ir/graph/weight_table.h"

namespace moec {

// A digest of the config, and of the size, the header and samples of the payload of each file of
// weights, in the order of the table. It does not depend on paths and times, and reads at most
// 1 MiB beside the headers of each file. Errors: those of RegularFile and digest_file().
Result<std::string> checkpoint_identity(const std::string& config_file, const WeightTable& weights);

}  // namespace moec
