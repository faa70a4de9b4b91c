// Exports the tables, each into its own file: embedding rows, and rows of rotary position
// embeddings, so that a runtime does not need their formula.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/export/export_job.h"
#include "frontends/export/export_shards.h"

namespace moec {

// Exported tables of one target.
struct ExportedTables {
  manifest::TableFile embedding;            // [vocabulary, hidden]
  std::optional<manifest::RopeTable> rope;  // absent if the model has no rotary embeddings
  uint64_t bytes_read = 0;                  // from the checkpoint's payload
  Diagnostics notes;
};

// Writes the tables of every target to OUT/NAME. Embeddings with equal bytes are read from the
// checkpoint once. The result is parallel to `jobs`. Errors: those of writing, of the reader and of
// weight_values.h; export.interrupted, emit.folder_gone.
Result<std::vector<ExportedTables>> export_tables(std::span<const ExportJob> jobs);

// All parts of one target's export.
struct ExportedParts {
  ExportedTables tables;
  std::vector<ExportedShard> shards;  // in plan order
};

// Writes the parts of every target that this process exports, or reuses those of an earlier run.
// The result is parallel to `jobs`. Errors: those of export_tables() and export_shards().
Result<std::vector<ExportedParts>> export_parts(std::span<const ExportJob> jobs);

}  // namespace moec
