// Locks the output folder of an export and opens its journal, for shards and GGUF files alike:
//
//   LockedFolder  the folder exists and is locked; the journal of an earlier run is read
//   OpenFolder    the journal is open for writing
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/output/folder_lock.h"
#include "backends/output/journal.h"
#include "backends/output/out_folder.h"
#include "frontends/export/options/export_options.h"

namespace moec {

// An output folder whose journal is open. The driver of the export shares ownership of it, so that
// the folder stays locked until every target has ended. A failure in any later phase can then
// report how many parts are kept.
struct OpenFolder {
  std::string path;
  size_t parts = 0;  // tables, shards or files of the complete export
  FolderLock lock;
  std::optional<FolderLock> whole;  // shared lock of the whole export, if this is a share
  Journal journal;

  // Appends the note export.unfinished to a failure: how many parts are complete and kept. Appends
  // nothing if the journal is gone, because the folder vanished or is finished.
  void note_unfinished(Diagnostics& failure) const;
};

class LockedFolder {
 public:
  // Creates the folder if it is missing, locks it, and reads its journal unless the export starts
  // over (force). The folder of a share is part_folder(); a shared lock of output.folder excludes
  // exports of the whole model. Errors: export.locked, those of create_folder() and read_journal();
  // export.out_not_empty if output.folder of a share contains other files.
  static Result<LockedFolder> lock(const OutputOptions& output);

  const std::string& path() const { return path_; }

  // If this folder has no journal, uses the copy in the journal of another target of the same
  // export, if there is one.
  Status resume_from(const LockedFolder& sibling);
  // Errors: export.out_not_empty if the folder contains files and its export is neither resumed nor
  // replaced; export.not_joined if it contains shares that are neither joined nor replaced; with
  // `join`, those of check_part_journals().
  Status check_free(const ExportInputs& inputs) const;
  // Determines which files in the folder were written by exports. `files` are the names that this
  // export writes; no other file may have one of them. Errors: export.foreign_file; output.changed
  // with `force`.
  Status claim(OutFiles files);
  // Opens the journal of an export with `parts` parts; call after claim(). Errors: export.differs,
  // those of Journal.
  Result<std::shared_ptr<OpenFolder>> open(const ExportInputs& inputs, size_t parts) &&;

 private:
  LockedFolder(std::string path, const OutputOptions& output, FolderLock lock,
               std::optional<FolderLock> whole)
      : path_(std::move(path)),
        force_(output.force),
        join_(output.join),
        lock_(std::move(lock)),
        whole_(std::move(whole)) {}

  std::string path_;
  bool force_ = false, join_ = false;
  FolderLock lock_;
  std::optional<FolderLock> whole_;
  std::optional<JournalText> earlier_;  // journal of the run to resume
  OutFiles names_;                      // files that this export and earlier ones write
};

// Refuses an export for one target into the parent folder of several targets, even with --force,
// because their exports could not be resumed afterwards. Error export.out_not_empty.
Status check_not_common(const std::string& folder);

}  // namespace moec
