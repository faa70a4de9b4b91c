// The output folder of an export from its lock to its journal, whatever the export writes:
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

// An output folder whose journal is open. It is shared with those who run the export, so that it
// stays locked until every target has ended, and so that a failure of any later phase can tell what
// is kept.
struct OpenFolder {
  std::string path;
  size_t parts = 0;  // tables, shards or files of the complete export
  FolderLock lock;
  Journal journal;

  // Appends to a failure the note export.unfinished: how many parts are complete and stay in the
  // folder. Appends nothing where the journal is gone, because the folder vanished or is finished.
  void note_unfinished(Diagnostics& failure) const;
};

class LockedFolder {
 public:
  // Creates the folder where it is missing, locks it, and reads its journal unless the export is to
  // start over (force). Errors: export.locked, those of create_folder() and read_journal().
  static Result<LockedFolder> lock(const OutputOptions& output);

  // Takes the folder's own journal from that of another target of the same export, if it is there.
  Status resume_from(const LockedFolder& sibling);
  // Error export.out_not_empty: it holds files, and neither is its export to be resumed nor to be
  // replaced.
  Status check_free() const;
  // Finds out which files in the folder exports wrote. Others must not be in the way of `files`,
  // those that this export writes. Errors: export.foreign_file; output.changed with
  // `force`.
  Status claim(OutFiles files);
  // Opens the journal of an export of so many parts; after claim(). Errors: export.differs, those
  // of Journal.
  Result<std::shared_ptr<OpenFolder>> open(const ExportInputs& inputs, size_t parts) &&;

 private:
  LockedFolder(std::string path, bool force, FolderLock lock)
      : path_(std::move(path)), force_(force), lock_(std::move(lock)) {}

  std::string path_;
  bool force_ = false;
  FolderLock lock_;
  std::optional<JournalText> earlier_;  // of the run to resume
  OutFiles names_;                      // of the files that this export and earlier ones write
};

// Refuses an export for one target into the common folder of several. With --force it is refused as
// well, because the exports of the several targets could not be resumed afterwards. Error
// export.out_not_empty.
Status check_not_common(const std::string& folder);

}  // namespace moec
