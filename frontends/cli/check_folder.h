// The check of an exported folder before any device sees it: files, digests, ONNX's own checker,
// the IR read back, ports, coverage, and where each op is predicted to run.
#pragma once

#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "ir/diagnostics.h"
#include "ir/target.h"

namespace moec {

struct CheckedShard {
  std::string name;
  int64_t ops = 0, weight_bytes = 0;           // of the narrowest file
  std::vector<manifest::Placement> placement;  // predicted, of the narrowest file
  int64_t peak_activation_bytes = 0;           // of the widest file
};

struct CheckReport {
  Manifest manifest;
  std::vector<CheckedShard> shards;
  Diagnostics findings;  // errors and warnings; a check falls short when there is an error
};

struct CheckOptions {
  bool digests = true;  // read every byte of every file
};

// A manifest that cannot be read is a failure; all else is a finding.
Result<CheckReport> check_folder(const std::string& folder, const Target& target,
                                 const CheckOptions& options);

}  // namespace moec
