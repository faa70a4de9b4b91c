// The journal of an export: a file (kJournalFile) in the output folder that lists the complete
// parts, so that the same command can resume an interrupted export. The last step of the export
// removes it. With several targets, the journal that is removed last contains copies of the other
// journals.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "backends/files/append_file.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/journal_text.h"

namespace moec {

// Reads the journal in `folder`, which must exist. Errors: export.journal, those of RegularFile.
Result<JournalText> read_journal(const std::string& folder);

// Returns an error export.differs for each input of `folder`'s journal, `was`, that differs from
// `now`; empty: the export can be resumed.
Diagnostics different_inputs(const ExportInputs& was, const ExportInputs& now,
                             const std::string& folder);

// Describes a folder with a written manifest, for the journal of another target. Errors: those of
// digest_file() and read_journal().
Result<FinishedTarget> describe_finished(const std::string& folder);

// Finds the entry for `folder` in another target's journal. Null if there is none, or if the
// folder's manifest differs from the entry because another export replaced it.
const FinishedTarget* find_finished(const std::vector<FinishedTarget>& finished,
                                    const std::string& folder);

// Thread-safe, except for adopt(), remove() and the entries of finished targets.
class Journal {
 public:
  // Starts a new journal and replaces an existing one; `names` are JournalText::names. Errors, here
  // and below: those of backends/files/write_error.h.
  static Result<Journal> begin(const std::string& folder, const ExportInputs& inputs,
                               std::set<std::string> names);

  // Continues the journal of an earlier run with the same inputs. Additional error: export.differs,
  // one per input that differs.
  static Result<Journal> resume(const std::string& folder, const ExportInputs& inputs,
                                std::set<std::string> names, const JournalText& earlier);

  // Returns the journal's report of a part if all its files are intact. Reads each file to compare
  // size and digest; rejects links. Returns null if the part must be emitted.
  const EmitReport* find_complete(const std::string& part);
  // As above for parts that share files, which are read once: all parts, or none if one must be
  // emitted.
  std::vector<const EmitReport*> find_complete(std::span<const std::string> parts);

  // Adds parts that another export with the same inputs wrote, as if an earlier run of this one had
  // completed them. Their files must be on disk under their final names; find_complete() compares
  // the digests.
  Status adopt(const std::vector<JournalPart>& parts);
  // True if an earlier run completed the part, or if it was adopted.
  bool lists(const std::string& part) const { return earlier_.contains(part); }

  // Adds a part. All its files must be on disk under their final names.
  Status add(const JournalPart& part);
  // Adds another target, whose journal is removed before this one. Does not repeat an existing
  // entry.
  Status add(const FinishedTarget& target);

  // kept(): number of parts that find_complete() returned. complete(): number of added parts and
  // parts of the earlier run, except those that find_complete() found damaged.
  size_t kept() const;
  size_t complete() const;

  // Paths of the files of an earlier run's parts, relative to the folder.
  std::set<std::string> files() const;
  // Names of all files that this export or earlier ones write here.
  const std::set<std::string>& names() const { return names_; }

  // Error emit.folder_gone if the journal file is gone: complete parts may be gone too.
  Status check_present() const { return file_.check_present(); }

  // Removes the file without a flush. If a power failure undoes the removal, the same command finds
  // every part complete and removes the journal again.
  Status remove();

 private:
  Journal(std::string folder, AppendFile file)
      : folder_(std::move(folder)), file_(std::move(file)) {}
  static Result<Journal> write(const std::string& folder, JournalText text);

  std::string folder_;
  AppendFile file_;
  std::set<std::string> names_;
  std::map<std::string, EmitReport> earlier_;  // of an earlier run or adopted, by part
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::set<std::string> complete_;  // names of parts
  std::vector<FinishedTarget> finished_;
  size_t kept_ = 0;
};

}  // namespace moec
