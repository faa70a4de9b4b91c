// The journal of an export, a file (kJournalFile) in its output folder that lists the complete
// parts, so that the same command resumes an interrupted export. It exists as long as the export is
// not finished, and is removed in its last step. With several targets, the journal that is removed
// last holds copies of the others.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "backends/files/append_file.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/journal_text.h"

namespace moec {

// Reads the journal in `folder`, which must exist. Errors: export.journal, those of RegularFile.
Result<JournalText> read_journal(const std::string& folder);

// Describes a folder whose manifest is written, for the journal of another target. Errors: those of
// digest_file() and of read_journal().
Result<FinishedTarget> describe_finished(const std::string& folder);

// Finds the entry for `folder` in another target's journal. Null where there is none, or where the
// folder's manifest is not the one that the entry describes, because another export replaced it.
const FinishedTarget* find_finished(const std::vector<FinishedTarget>& finished,
                                    const std::string& folder);

// May be used by several threads at once, except for remove() and the entries of finished targets.
class Journal {
 public:
  // Starts a new journal and replaces any that exists; `names` are JournalText::names. Errors, here
  // and below: those of backends/files/write_error.h.
  static Result<Journal> begin(const std::string& folder, const ExportInputs& inputs,
                               std::set<std::string> names);

  // Continues the journal of an earlier run, which must have been made for the same inputs. Further
  // errors: export.differs, one for each input that differs.
  static Result<Journal> resume(const std::string& folder, const ExportInputs& inputs,
                                std::set<std::string> names, const JournalText& earlier);

  // Returns how an earlier run emitted the part, after all its files were read and found to be
  // files in the folder, not links, of the size and the digest of the journal's entry. Null
  // otherwise: the part must be made.
  const EmitReport* find_complete(const std::string& part);

  // Enters a part, all files of which are on disk under their final names.
  Status add(const JournalPart& part);
  // Enters another target whose journal is removed before this one. An entry that exists already is
  // not repeated.
  Status add(const FinishedTarget& target);

  // The number of parts that find_complete() returned, and that of all complete parts: those that
  // were added, and those of an earlier run unless find_complete() has found them damaged.
  size_t kept() const;
  size_t complete() const;

  // Paths of the files of an earlier run's parts, relative to the folder.
  std::set<std::string> files() const;
  // Those of all files that this export or earlier ones wrote here.
  const std::set<std::string>& names() const { return names_; }

  // Error emit.folder_gone when the journal file is gone: complete parts may be gone as well.
  Status check_present() const { return file_.check_present(); }

  // Removes the file, without a flush. If a power cut undoes that, the same command finds every
  // part complete and removes the journal again.
  Status remove();

 private:
  Journal(std::string folder, AppendFile file)
      : folder_(std::move(folder)), file_(std::move(file)) {}
  static Result<Journal> write(const std::string& folder, JournalText text);

  std::string folder_;
  AppendFile file_;
  std::set<std::string> names_;
  std::map<std::string, EmitReport> earlier_;  // by part: entries of an earlier run
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::set<std::string> complete_;  // names of parts
  std::vector<FinishedTarget> finished_;
  size_t kept_ = 0;
};

}  // namespace moec
