// Targets from JSON. Those of this folder are compiled in; a user may give others.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/target/target.h"

namespace moec {

// One JSON object with the fields of Target, but for `limits`, which derive_limits makes from the
// rules. A rule has those fields of TargetRule that its condition looks at: `ops` with op_is,
// `dtypes` with dtype_is, `axes` with axis_is and slice_offset, `limit` where the condition has
// one. May be left out: `ops` of other conditions on ops, `axes` of extent_above, `kinds` of
// conditions on shards, `chips`. Read strictly: target.syntax (with line and column),
// target.duplicate_key, target.missing_field, target.unknown_field, target.bad_value. `file` is for
// messages.
Result<Target> load_target(std::string_view text, const std::string& file = "<target>");

// Error target.unknown names the known ones.
Result<Target> builtin_target(std::string_view name);
std::vector<std::string_view> builtin_target_names();

}  // namespace moec
