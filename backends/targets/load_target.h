// Reads target files. The ones in this folder are compiled in; users may give others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/target/target.h"

namespace moec {

// Reads one JSON object with the fields of Target except `limits`, which derive_limits makes from
// the rules. README.md of this folder describes every field. A rule has the fields of TargetRule
// that its condition looks at: `ops` with op_is, `dtypes` with dtype_is, `axes` with axis_is and
// slice_offset, `limit` where the condition compares with one. Optional: `ops` of other conditions
// on ops, `axes` of extent_above, `kinds` of conditions on shards, `chips`. `file` is the name for
// messages. Errors, with line and column: target.syntax, target.duplicate_key,
// target.missing_field, target.unknown_field, target.bad_value.
Result<Target> load_target(std::string_view text, const std::string& file = "<target>");

// A compiled-in target by name. Error target.unknown lists the known names.
Result<Target> builtin_target(std::string_view name);
std::vector<std::string_view> builtin_target_names();

}  // namespace moec
