// All parts of an export: its tables and its shards.
#pragma once

#include <span>
#include <vector>

#include "frontends/export/export_job.h"
#include "frontends/export/export_shards.h"
#include "frontends/export/export_tables.h"

namespace moec {

// The parts of one target.
struct ExportedParts {
  ExportedTables tables;
  std::vector<ExportedShard> shards;  // in plan order
};

// Writes the parts of every target, or takes them over from an earlier run. The result is parallel
// to `jobs`. Errors: those of export_tables() and export_shards().
Result<std::vector<ExportedParts>> export_parts(std::span<const ExportJob> jobs);

}  // namespace moec
