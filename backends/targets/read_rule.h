// Reads one rule of a target file.
#pragma once

#include "ir/base/json_fields.h"
#include "ir/target/target.h"

namespace moec {

// Errors: those of load_target.
Result<TargetRule> read_rule(JsonFields& fields);

// The strength of the evidence for a rule, the field "confidence".
Status read_confidence(JsonFields& fields, std::string& confidence);

}  // namespace moec
