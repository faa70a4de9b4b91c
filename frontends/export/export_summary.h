// Summary of a finished export.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/manifest/manifest.h"
#include "ir/base/diagnostics.h"

namespace moec {

struct ExportSummary {
  Manifest manifest;          // as written
  Diagnostics notes;          // warnings and notes, in plan order of the shards
  uint64_t bytes_read = 0;    // from the checkpoint's payload, by this run
  uint64_t weight_bytes = 0;  // in the shards
  uint64_t file_bytes = 0;    // of all data and graph files on the disk; hard links count once
  size_t parts_kept = 0;      // tables and shards that an earlier run had completed
};

}  // namespace moec
