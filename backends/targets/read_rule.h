// One rule of a target from JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "ir/target/target.h"

namespace moec {

// `where` names the rule in messages. Errors: those of load_target.
Result<TargetRule> read_rule(const nlohmann::json& object, const std::string& where);

}  // namespace moec
