// Checks that two exports can be compared.
#pragma once

#include <string>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

// An exported folder and its manifest.
struct ComparedExport {
  const std::string& folder;
  const Manifest& manifest;
};

// Error compare.checkpoint: the exports are of different checkpoints.
Status check_same_checkpoint(const ComparedExport& reference, const ComparedExport& compared);

}  // namespace moec
