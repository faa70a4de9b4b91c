// Resolves the given options into the options of each target's export.
#pragma once

#include <vector>

#include "frontends/export/options/option_row.h"

namespace moec {

// Returns the options for each target of --target, in that order. `base` provides the settings
// without a row: the checkpoint, the output folder, --force and the callbacks. With several
// targets, each gets a subfolder with its name. An option applies only to targets for which it has
// an effect. Errors:
//   export.flags   an option has no effect for any target, or two options exclude each other
//   top_k.format   --top-k for files without graphs
// and those of find_target(), for_chip(), parse_weight_policy() and the rows.
Result<std::vector<ExportOptions>> resolve_options(const GivenOptions& given,
                                                   const ExportOptions& base);

// Like resolve_options(), for one target. Error target.unknown if --target names several.
Result<ExportOptions> resolve_for_one(const GivenOptions& given, const ExportOptions& base = {});

}  // namespace moec
