// From the options that were given to those that an export is made with.
#pragma once

#include <vector>

#include "frontends/export/options/option_row.h"

namespace moec {

// The options for each target that --target names, in that order. `base` has what no row sets: the
// checkpoint, the output folder, --force and the callbacks. With several targets, each gets a
// subfolder of its name. An option applies to the targets that it has an effect for. Errors:
//   export.flags   an option has no effect for any target, or two exclude each other
//   top_k.format   --top-k for files without graphs
// those of find_target(), for_chip() and parse_weight_policy(), and those of the rows.
Result<std::vector<ExportOptions>> resolve_options(const GivenOptions& given,
                                                   const ExportOptions& base);

// The same for one target. Error target.unknown for several.
Result<ExportOptions> resolve_for_one(const GivenOptions& given, const ExportOptions& base = {});

}  // namespace moec
