// The export of one target as a sequence of types, one per phase:
//
//   PlannedExport   nothing is written yet: export_plan.h
//   LockedExport    the folder exists and is locked; the journal of an earlier run is read
//   OpenExport      the journal is open for writing
//   PreparedExport  leftovers are removed, text files are copied; parts can be written
//   WrittenExport   all parts, the report and the manifest are in place; the journal remains
//
// The export of a share (OutputOptions::share) ends after its parts are written.
//
// Each step consumes the previous phase, so that steps in the wrong order do not compile.
// TargetExports (export_model.cc) orders the steps of several targets.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "frontends/export/export_job.h"
#include "frontends/export/export_plan.h"
#include "frontends/export/export_summary.h"
#include "frontends/export/export_tables.h"
#include "frontends/export/open_folder.h"

namespace moec {

class OpenExport;

class LockedExport {
 public:
  // Errors: those of LockedFolder::lock().
  static Result<LockedExport> lock(PlannedExport planned);

 private:
  friend Result<std::vector<OpenExport>> open_exports(std::vector<LockedExport> exports);

  LockedExport(PlannedExport planned, LockedFolder folder)
      : planned_(std::move(planned)), folder_(std::move(folder)) {}
  Status claim_files();
  Result<OpenExport> open() &&;

  PlannedExport planned_;
  LockedFolder folder_;
};

// Opens the journals of all targets of an export. Checks all folders before it changes any: each
// must be empty, resumable or replaceable (force), and no foreign file may have the name of a file
// that this export writes. Errors: export.out_not_empty, export.foreign_file, export.differs, those
// of parse_journal() and Journal.
Result<std::vector<OpenExport>> open_exports(std::vector<LockedExport> exports);

class PreparedExport;

class OpenExport {
 public:
  std::shared_ptr<const OpenFolder> folder() const { return folder_; }

  // Removes the files of earlier exports that the journal does not list, and copies the
  // checkpoint's text files (tokenizer, chat template). Errors: those of remove_files() and
  // carry_files().
  Result<PreparedExport> prepare() &&;

 private:
  friend class LockedExport;
  OpenExport(PlannedExport planned, std::shared_ptr<OpenFolder> folder)
      : planned_(std::move(planned)), folder_(std::move(folder)) {}

  PlannedExport planned_;
  std::shared_ptr<OpenFolder> folder_;
};

class WrittenExport;

class PreparedExport {
 public:
  // Weight bytes of the shards to export.
  uint64_t payload_bytes() const { return planned_.payload_bytes; }

  // Returns the shared state for writing the parts. The job refers to this object and to `advance`;
  // neither may move while the job exists.
  ExportJob job(const PayloadCallback& advance) const;

  // True for a share of an export (OutputOptions::share).
  bool is_share() const { return planned_.options.output.share.has_value(); }
  // Ends the export of a share, whose journal remains for the process that joins the shares.
  ExportSummary end_share(ExportedParts parts) &&;

  // Writes report.json, the ane-book's manifest if requested, and finally manifest.json. All
  // `parts` must be in place. Errors: emit.folder_gone, emit.file_gone, those of writing.
  Result<WrittenExport> finish(ExportedParts parts) &&;

 private:
  friend class OpenExport;
  PreparedExport(PlannedExport planned, std::shared_ptr<OpenFolder> folder)
      : planned_(std::move(planned)), folder_(std::move(folder)) {}
  ExportSummary summarize(ExportedParts parts);

  PlannedExport planned_;
  std::shared_ptr<OpenFolder> folder_;
};

class WrittenExport {
 public:
  const std::string& path() const { return folder_->path; }

  // Copies the journal of `sibling` into the journal of this export, which must be removed after
  // that of `sibling`.
  Status keep_journal_of(const WrittenExport& sibling);

  // Removes the journal, which makes the folder a finished export. This is the last step.
  Result<ExportSummary> remove_journal() &&;

 private:
  friend class PreparedExport;
  WrittenExport(ExportSummary summary, std::shared_ptr<OpenFolder> folder)
      : summary_(std::move(summary)), folder_(std::move(folder)) {}

  ExportSummary summary_;
  std::shared_ptr<OpenFolder> folder_;
};

// Removes the journals of all targets. The journal of the last target is removed last and contains
// copies of the others, so that the same command can resume the export while any journal exists.
// Returns the summaries in the order of `exports`.
Result<std::vector<ExportSummary>> remove_journals(std::vector<WrittenExport> exports);

}  // namespace moec
