// What all parts of one target's running export share. A part is a table or a shard: it is taken
// from the journal where an earlier run finished it, else made and entered there.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "backends/output/journal.h"
#include "backends/output/out_folder.h"
#include "backends/weights/weight_reader.h"
#include "frontends/export/export_model.h"
#include "passes/pipeline.h"

namespace moec {

// So many more bytes of the payload are written, those of a part. Called by several threads.
using PayloadCallback = std::function<void(uint64_t bytes, const std::string& part)>;

struct ExportJob {
  const ExportOptions& options;
  const Plan& plan;
  const OutNames& names;
  const WeightReader& reader;
  Journal& journal;
  const PayloadCallback& advance;

  // Asked between tiles. Errors: export.interrupted, emit.folder_gone.
  Status check_going_on() const;

  // Enters a part whose files are in place, made from a checkpoint that is still as it was opened.
  // Errors: weights.file_changed, those of Journal::add().
  Status finish_part(const JournalPart& part) const;
};

// What one shard's export leaves behind.
struct ExportedShard {
  manifest::Shard shard;
  std::vector<PassReport> passes;
  Diagnostics notes;
  uint64_t bytes_read = 0;
};

// What all parts leave behind.
struct ExportedParts {
  manifest::TableFile embedding;
  std::optional<manifest::RopeTable> rope;
  std::vector<ExportedShard> shards;  // in plan order
  uint64_t table_bytes_read = 0;      // of the checkpoint's payload, for the tables
};

// All shards of all targets, by target and then in plan order. As many units (export_units.h) are
// under way at a time as the first target's options say; what the targets' shards have in common is
// read once. Errors: those of the first failing unit.
Result<std::vector<std::vector<ExportedShard>>> export_shards(std::span<const ExportJob> jobs);

}  // namespace moec
