#include "frontends/export/open_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "backends/formats/format.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/part_folders.h"
#include "backends/output/part_journals.h"

namespace moec {
namespace {

Status check_empty(const std::string& folder) {
  MOEC_ASSIGN(const bool occupied, holds_files(folder));
  if (!occupied) return {};
  return fail("export.out_not_empty", "the output folder is not empty",
              "choose another --out, or pass --force to replace an earlier export in the folder",
              {.file = folder});
}

// The export that joins the shares would be refused for these files later.
Status check_free_for_shares(const OutputOptions& output) {
  if (output.force || has_journal(output.folder)) return {};
  return check_empty(output.folder);
}

}  // namespace

void OpenFolder::note_unfinished(Diagnostics& failure) const {
  // Without a journal, nothing can be resumed: the folder vanished or is finished.
  if (!has_journal(path)) return;
  failure.push_back(
      {Severity::note,
       "export.unfinished",
       fmt::format("{} of {} tables and shards are complete and kept", journal.complete(), parts),
       "run the same command again to resume the export",
       {.file = path}});
}

Result<LockedFolder> LockedFolder::lock(const OutputOptions& output) {
  MOEC_ASSIGN(std::optional<FolderLock> whole, lock_whole(output.folder, output.share));
  if (output.share) MOEC_TRY(check_free_for_shares(output));
  const std::string path = part_folder(output.folder, output.share);
  MOEC_TRY(create_folder(path));
  // The journal is read under the lock. Otherwise, a running export could still change it.
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(path));
  LockedFolder locked(path, output, std::move(lock), std::move(whole));
  if (output.force || !has_journal(path)) return locked;
  MOEC_ASSIGN(locked.earlier_, read_journal(path));
  return locked;
}

// A run that was interrupted while it removed the journals of several targets leaves finished
// folders without a journal. The last journal contains copies of the removed journals.
Status LockedFolder::resume_from(const LockedFolder& sibling) {
  if (force_ || earlier_ || !sibling.earlier_) return {};
  const FinishedTarget* found = find_finished(sibling.earlier_->finished, path_);
  if (!found) return {};
  MOEC_ASSIGN(earlier_, parse_journal(found->journal, sibling.path_));
  return {};
}

Status LockedFolder::check_free(const ExportInputs& inputs) const {
  if (join_) MOEC_TRY(check_part_journals(path_, inputs));
  if (force_) return {};
  if (!join_ && has_part_journals(path_))
    return fail("export.not_joined", "the output folder contains shares of an export (--part)",
                "pass --join to complete that export, or --force to discard it", {.file = path_});
  return earlier_ ? Status() : check_empty(path_);
}

Status LockedFolder::claim(OutFiles files) {
  const OwnFiles written = files_of_exports(path_);
  // --force may replace a finished export, so its files are compared with their digests first.
  if (force_) MOEC_TRY(check_replaceable(path_, written));
  OutFiles own = paths_of(written);
  // `earlier_` may be a copy from a sibling's journal, which files_of_exports() does not read.
  if (earlier_) own.insert(earlier_->names.begin(), earlier_->names.end());
  names_ = std::move(files);
  MOEC_TRY(check_none_in_the_way(path_, names_, own, shard_suffixes()));
  // The journal lists both sets: after an interruption, the files of the earlier export must still
  // count as moec's.
  names_.merge(own);
  names_.erase(kJournalFile);  // otherwise a resumed journal would list itself and grow
  return {};
}

Result<std::shared_ptr<OpenFolder>> LockedFolder::open(const ExportInputs& inputs,
                                                       size_t parts) && {
  MOEC_ASSIGN(Journal journal, earlier_
                                   ? Journal::resume(path_, inputs, std::move(names_), *earlier_)
                                   : Journal::begin(path_, inputs, std::move(names_)));
  return std::make_shared<OpenFolder>(
      OpenFolder{std::move(path_), parts, std::move(lock_), std::move(whole_), std::move(journal)});
}

Status check_not_common(const std::string& folder) {
  // An export for one target in the folder itself may be resumed or replaced.
  if (holds_export(folder)) return {};
  const std::vector<std::string> others = exports_in(folder);
  if (others.empty()) return {};
  return fail("export.out_not_empty",
              "the output folder contains folders of other exports, such as " +
                  std::filesystem::path(others.front()).filename().string(),
              "choose another --out for a single target", {.file = folder});
}

}  // namespace moec
