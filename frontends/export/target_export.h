// The export of one target, step by step. What export_model() does with it is the order of the
// steps; those between begin() and finish() are the parts: export_job.h.
#pragma once

#include <optional>

#include "backends/output/folder_lock.h"
#include "frontends/export/export_job.h"
#include "frontends/export/export_plan.h"

namespace moec {

class TargetExport {
 public:
  // `options` must outlive the export.
  TargetExport(const ExportOptions& options, PlannedExport planned)
      : options_(options), planned_(std::move(planned)) {}

  uint64_t payload_bytes() const { return planned_.payload_bytes; }

  // The folder is there and locked, and its journal, if there is one, is read. Errors:
  // export.locked, those of create_folder() and read_journal().
  Status lock_folder();

  // Where the folder is finished and its journal gone, goes on from what the sibling's journal
  // kept of it. Errors: those of parse_journal().
  Status go_on_beside(const TargetExport& sibling);

  // Empty, or with an export that goes on, or to be replaced. Error export.out_not_empty.
  Status check_free() const;

  // The journal is there. Errors: export.differs, those of Journal.
  Status open_journal();

  // What the journal does not name is removed; the carried files are copied. Errors: those of
  // remove_exports() and carry_files().
  Status begin();

  // For the parts. Must not outlive the export, which must not move from now on.
  ExportJob job(const PayloadCallback& advance) const;

  // What a failure from begin() on leaves in the folder, for the user who wonders what is lost.
  void note_finished(Diagnostics& failure) const;

  // With all parts in place: report and manifest are written, the manifest last.
  Status finish(ExportedParts parts);

  // This target's journal is to be removed after that of the sibling, which is finished.
  Status keep_journal_of(const TargetExport& sibling);

  // The very last step: from now on the folder holds a finished export.
  Status remove_journal();

  // What was renamed and removed in the folder is on disk.
  Status flush() const;

  ExportSummary take_summary() { return std::move(summary_); }

 private:
  Result<manifest::FileRef> write_report(const std::vector<ExportedShard>& shards) const;
  void summarize(ExportedParts parts);

  const ExportOptions& options_;
  PlannedExport planned_;
  std::optional<FolderLock> lock_;
  std::optional<JournalText> earlier_;  // until open_journal(): what is there of an earlier run
  std::unique_ptr<Journal> journal_;
  ExportSummary summary_;
};

}  // namespace moec
