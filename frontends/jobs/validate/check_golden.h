// Checks that a golden can validate an export.
#pragma once

#include <string>

#include "backends/runtime/session/session.h"
#include "frontends/measure/golden.h"

namespace moec {

// Errors: golden.other_model, golden.other_top_k, validate.masked (the export in `folder` has a
// mask, but the options have none).
Status check_golden(const Golden& golden, const Session& session, const std::string& folder,
                    const SessionOptions& options);

}  // namespace moec
