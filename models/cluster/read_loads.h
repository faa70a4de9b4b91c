// Reads measured loads of experts from a CSV table:
//
//   layer,expert,load
//   0,0,90
//   0,1,132.5
//
// Layers and experts are numbered as in the model. Loads may have any unit. Every expert of every
// MoE layer has exactly one line; the lines may be in any order.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/model/model_config.h"

namespace moec {

using ExpertLoads = std::map<int64_t, std::vector<double>>;  // MoE layer → [experts]

// Errors, each with file and line: loads.header, loads.line, loads.layer (not an MoE layer of the
// model), loads.expert, loads.value (negative or not finite), loads.duplicate. Without a line:
// loads.missing, for the first expert without a load.
Result<ExpertLoads> parse_expert_loads(std::string_view text, const std::string& file,
                                       const ModelConfig& model);

}  // namespace moec
