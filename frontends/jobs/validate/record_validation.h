// Stores the results of a validation in the validated export.
#pragma once

#include <string>

#include "frontends/jobs/validate/validate_model.h"

namespace moec {

// Writes cosine and relative L2 of each shard into the manifest of `folder`. Replaces earlier
// results of the same precision. Errors: those of reading and writing a manifest.
Status record_validation(const ValidationReport& report, const std::string& folder);

}  // namespace moec
