// The tables of an export, each in a file of its own: embedding rows, and the rows of rotary
// position embeddings, so that a runtime needs no formula.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/manifest/manifest.h"
#include "frontends/export/export_job.h"
#include "frontends/export/export_shards.h"

namespace moec {

// The tables of one target.
struct ExportedTables {
  manifest::TableFile embedding;            // [vocabulary, hidden]
  std::optional<manifest::RopeTable> rope;  // absent where the model does not rotate
  uint64_t bytes_read = 0;                  // of the checkpoint's payload
  Diagnostics notes;
};

// Writes the tables of every target to OUT/NAME. Embeddings of the same bytes are read in one pass
// over the checkpoint. The result is parallel to `jobs`. Errors: those of writing and of the
// reader and of weight_values.h, export.interrupted, emit.folder_gone.
Result<std::vector<ExportedTables>> export_tables(std::span<const ExportJob> jobs);

// All parts of an export: its tables and its shards.

// The parts of one target.
struct ExportedParts {
  ExportedTables tables;
  std::vector<ExportedShard> shards;  // in plan order
};

// Writes the parts of every target, or takes them over from an earlier run. The result is parallel
// to `jobs`. Errors: those of export_tables() and export_shards().
Result<std::vector<ExportedParts>> export_parts(std::span<const ExportJob> jobs);

}  // namespace moec
