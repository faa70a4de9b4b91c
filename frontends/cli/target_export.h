// The export of one target, step by step. What export_model() does with it is the order of the
// steps; those between begin() and finish() are the parts: export_job.h.
#pragma once

#include <optional>

#include "frontends/cli/export_job.h"
#include "frontends/cli/export_plan.h"
#include "frontends/cli/folder_lock.h"

namespace moec {

class TargetExport {
 public:
  // `options` must outlive the export.
  TargetExport(const ExportOptions& options, PlannedExport planned)
      : options_(options), planned_(std::move(planned)) {}

  uint64_t payload_bytes() const { return planned_.payload_bytes; }

  // The folder is there, locked, and free for an export: empty, or with a journal, or to be
  // replaced. Errors: export.out_not_empty, export.locked, those of create_folder().
  Status take_folder();

  // The journal is there; what it does not name is removed; the carried files are copied. Errors:
  // export.differs, those of Journal, remove_exports() and carry_files().
  Status begin();

  // For the parts. Must not outlive the export, which must not move from now on.
  ExportJob job(Progress& progress) const;

  // What a failure leaves in the folder, for the user who wonders what is lost.
  void note_finished(Diagnostics& failure) const;

  // With all parts in place: report and manifest are written, the manifest last.
  Status finish(ExportedParts parts);

  // The very last step: from now on the folder holds a finished export.
  Status remove_journal();

  ExportSummary take_summary() { return std::move(summary_); }

 private:
  Status write_report(const std::vector<ExportedShard>& shards) const;
  void summarize(ExportedParts parts);

  const ExportOptions& options_;
  PlannedExport planned_;
  std::optional<FolderLock> lock_;
  std::unique_ptr<Journal> journal_;
  ExportSummary summary_;
};

}  // namespace moec
