// The export of one target as a sequence of types, one for each phase:
//
//   PlannedExport   nothing is written yet: export_plan.h
//   LockedExport    the folder exists and is locked; the journal of an earlier run is read
//   OpenExport      the journal is open for writing
//   PreparedExport  leftovers are removed and files for text are copied; parts can be written
//   WrittenExport  all parts, the report and the manifest are in place; the journal remains
//
// Each step consumes the phase before it, so that steps in a wrong order do not compile. The order
// of the steps of several targets is that of TargetExports (export_model.cc). An export refers to
// its ExportOptions, which must outlive it.
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

// Opens the journals of all targets of an export. Nothing in any folder changes before every folder
// is known to be empty, resumable or to be replaced (force), and to hold nothing in the way that no
// export wrote. Errors: export.out_not_empty, export.foreign_file, export.differs, those of
// parse_journal() and Journal.
Result<std::vector<OpenExport>> open_exports(std::vector<LockedExport> exports);

class PreparedExport;

class OpenExport {
 public:
  std::shared_ptr<const OpenFolder> folder() const { return folder_; }

  // Removes what earlier exports left in the folder and the journal does not name, and copies the
  // checkpoint's files for text. Errors: those of remove_files() and carry_files().
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
  // Bytes of weights in all shards.
  uint64_t payload_bytes() const { return planned_.payload_bytes; }

  // What the parts are made with. The job refers to this object and to `advance`: neither may move
  // or end before it.
  ExportJob job(const PayloadCallback& advance) const;

  // Writes report.json, the manifest of a compatible runtime where one is asked for, and at last
  // manifest.json. `parts` must all be in place. Errors: emit.folder_gone, emit.file_gone,
  // those of writing.
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

  // Copies the sibling's journal into this one, which is to be removed after the sibling's.
  Status keep_journal_of(const WrittenExport& sibling);

  // The last step: removes the journal, so that the folder counts as a finished export.
  Result<ExportSummary> remove_journal() &&;

 private:
  friend class PreparedExport;
  WrittenExport(ExportSummary summary, std::shared_ptr<OpenFolder> folder)
      : summary_(std::move(summary)), folder_(std::move(folder)) {}

  ExportSummary summary_;
  std::shared_ptr<OpenFolder> folder_;
};

// Removes the journals of all targets, that of the last one at the end: it keeps copies of the
// others, so that as long as any journal exists the same command resumes. Summaries in the order of
// `exports`.
Result<std::vector<ExportSummary>> remove_journals(std::vector<WrittenExport> exports);

}  // namespace moec
