// Measured loads of experts, from a table in CSV:
//
//   layer,expert,load
//   0,0,90
//   0,1,132.5
//
// Layers and experts are numbered as in the model; a load has any unit. Every expert of every MoE
// layer has one line, in any order.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/plan/model_config.h"

namespace moec {

using ExpertLoads = std::map<int64_t, std::vector<double>>;  // MoE layer → [experts]

// Errors, each with file and line: loads.header, loads.line, loads.layer (no MoE layer of the
// model), loads.expert, loads.value (negative or not finite), loads.duplicate; and loads.missing
// for the first expert without a line.
Result<ExpertLoads> parse_expert_loads(std::string_view text, const std::string& file,
                                       const ModelConfig& model);

}  // namespace moec
