// Reads target files. The files in this folder are compiled in; users may supply their own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/target/target.h"

namespace moec {

// Parses a JSON object with the fields of Target except `limits`, which derive_limits() computes
// from the rules. README.md of this folder documents the fields. With `extends`, the name of a
// built-in target, only `name` is required: other fields replace those of that target, a rule
// replaces the one with its id, and rules with new ids follow. A rule requires the fields that its
// condition uses: `ops` for op_is, `dtypes` for dtype_is, `axes` for axis_is and slice_offset,
// `limit` for comparisons. Optional: `ops` for other conditions on ops, `axes` for extent_above,
// `kinds` for conditions on shards, `chips`. `file` is the name for messages. Errors, with line and
// column: target.syntax, target.duplicate_key, target.missing_field, target.unknown_field,
// target.bad_value.
Result<Target> load_target(std::string_view text, const std::string& file = "<target>");

// A built-in target by name. Error target.unknown lists the known names.
Result<Target> builtin_target(std::string_view name);
std::vector<std::string_view> builtin_target_names();

}  // namespace moec
