// The journal of an export in its output folder, kJournalFile: which parts are complete, so that
// the same command goes on where it stopped. It is there as long as the export is not finished; the
// last step of an export removes it. Of several targets' journals one goes last: it keeps what the
// others said.
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

// What the journal that is there says. Errors: export.journal, those of RegularFile.
Result<JournalText> read_journal(const std::string& folder);

// What the folder holds, for the journal of another target. Errors: those of digest_file() and of
// RegularFile.
Result<FinishedTarget> describe_finished(const std::string& folder);

// What `finished` says of this folder, whose journal is gone: null where it says nothing, or the
// folder holds another export by now.
const FinishedTarget* find_finished(const std::vector<FinishedTarget>& finished,
                                    const std::string& folder);

// May be used from several threads at once, except remove().
class Journal {
 public:
  // A new journal, in place of any that is there. Errors, here and below: those of write_error.h.
  static Result<Journal> begin(const std::string& folder, const ExportFacts& facts);

  // Goes on from what an earlier run's journal says, which was made for the same facts. Further
  // errors: export.differs for each fact that differs.
  static Result<Journal> resume(const std::string& folder, const ExportFacts& facts,
                                const JournalText& earlier);

  // What the part was emitted as when all its files have the size and the digest that the journal
  // says; else null, and the part must be made. Reads the files.
  const EmitReport* find_whole(const std::string& part);

  // The part's files are complete under their final names.
  Status add(const JournalPart& part);
  // This journal is to be removed after that of the target. Once for each.
  Status add(const FinishedTarget& target);

  // Parts that were found whole; and all that are, those among them that an earlier run finished
  // and nobody has looked for yet.
  size_t kept() const;
  size_t whole() const;

  // Paths of all parts' files, relative to the folder.
  std::set<std::string> files() const;

  // Error emit.folder_gone when the journal was removed, and with it maybe finished parts.
  Status check_present() const { return file_.check_present(); }

  // A power cut may bring it back; then the same command finds all that it names.
  Status remove();

 private:
  Journal(std::string folder, AppendFile file)
      : folder_(std::move(folder)), file_(std::move(file)) {}
  static Result<Journal> write(const std::string& folder, const JournalText& text);

  std::string folder_;
  AppendFile file_;
  std::map<std::string, EmitReport> found_;  // by part: what was there at the start
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
  std::set<std::string> whole_;  // by part
  std::vector<FinishedTarget> finished_;
  size_t kept_ = 0;
};

}  // namespace moec
