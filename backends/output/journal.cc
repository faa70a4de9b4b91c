#include "backends/output/journal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "backends/files/digest.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/files/write_error.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

std::string journal_path(const std::string& folder) { return folder + "/" + kJournalFile; }
std::string manifest_path(const std::string& folder) {
  return fmt::format("{}/{}", folder, kManifestJson);
}
std::string name_of(const std::string& folder) {
  return std::filesystem::path(folder).filename().string();
}

Result<std::string> digest_in(const std::string& folder, const EmittedFile& file) {
  const SplitPath name = split_path(file.path);
  MOEC_ASSIGN(const Folder root, Folder::open(folder));
  MOEC_ASSIGN(const Folder parent, root.open_below(name.parent));
  MOEC_ASSIGN(const RegularFile opened, parent.open_file(name.leaf));
  // The file is not read, because its digest must differ. An empty digest equals no digest of a
  // written file.
  if (opened.size() != file.bytes) return std::string();
  return digest_file(opened);
}

bool is_intact(const EmittedFile& file, const std::string& folder) {
  const auto digest = digest_in(folder, file);
  return digest && *digest == file.digest;
}

}  // namespace

Result<JournalText> read_journal(const std::string& folder) {
  MOEC_ASSIGN(const std::string text, read_text_file(journal_path(folder), kMaxJournalBytes));
  return parse_journal(text, journal_path(folder));
}

Diagnostics different_inputs(const ExportInputs& was, const ExportInputs& now,
                             const std::string& folder) {
  // The union of `was` and `now`: an input that only one of them has is a difference too.
  ExportInputs names = was;
  names.insert(now.begin(), now.end());
  const auto value = [](const ExportInputs& inputs, const std::string& name) {
    const auto found = inputs.find(name);
    return found == inputs.end() ? std::string("absent") : found->second;
  };
  Diagnostics found;
  for (const auto& [name, unused] : names)
    if (value(was, name) != value(now, name))
      found.push_back(
          {Severity::error,
           "export.differs",
           fmt::format(
               "the folder has an unfinished export with another {}: it was {}, now it is {}", name,
               value(was, name), value(now, name)),
           "use the same inputs as before, or start over with --force",
           {.file = folder}});
  return found;
}

Result<FinishedTarget> describe_finished(const std::string& folder) {
  FinishedTarget target{.folder = name_of(folder)};
  MOEC_ASSIGN(target.manifest, digest_file(manifest_path(folder)));
  MOEC_ASSIGN(JournalText journal, read_journal(folder));
  journal.finished.clear();  // so that journals do not nest
  target.journal = journal_text(journal);
  return target;
}

const FinishedTarget* find_finished(const std::vector<FinishedTarget>& finished,
                                    const std::string& folder) {
  const auto manifest = digest_file(manifest_path(folder));
  const auto found =
      std::find_if(finished.begin(), finished.end(), [&](const FinishedTarget& target) {
        return manifest && target.folder == name_of(folder) && target.manifest == *manifest;
      });
  return found == finished.end() ? nullptr : &*found;
}

Result<Journal> Journal::write(const std::string& folder, JournalText text) {
  // Written under a temporary name and renamed, so that a crash leaves either the old journal or
  // the new one.
  MOEC_TRY(write_file({folder, kJournalFile}, journal_text(text)));
  MOEC_ASSIGN(AppendFile file, AppendFile::open(journal_path(folder)));
  // The rename must be on disk before the export replaces any file that the journal names.
  MOEC_TRY(sync_folder(folder));
  Journal journal(folder, std::move(file));
  for (const JournalPart& part : text.parts) {
    journal.earlier_[part.name] = part.emitted;
    journal.complete_.insert(part.name);
  }
  journal.finished_ = std::move(text.finished);
  journal.names_ = std::move(text.names);
  return journal;
}

Result<Journal> Journal::begin(const std::string& folder, const ExportInputs& inputs,
                               std::set<std::string> names) {
  return write(folder, {inputs, std::move(names), {}, {}});
}

// Rewrites the file without torn lines, so that new entries are not appended to a partial line. A
// journal without parts has nothing to resume, so its inputs may differ.
Result<Journal> Journal::resume(const std::string& folder, const ExportInputs& inputs,
                                std::set<std::string> names, const JournalText& earlier) {
  names.insert(earlier.names.begin(), earlier.names.end());
  if (earlier.parts.empty()) return begin(folder, inputs, std::move(names));
  if (Diagnostics found = different_inputs(earlier.inputs, inputs, folder); !found.empty())
    return fail(std::move(found));
  return write(folder, {inputs, std::move(names), earlier.parts, earlier.finished});
}

const EmitReport* Journal::find_complete(const std::string& part) {
  const std::vector<const EmitReport*> found = find_complete({&part, 1});
  return found.empty() ? nullptr : found.front();
}

std::vector<const EmitReport*> Journal::find_complete(std::span<const std::string> parts) {
  std::vector<const EmitReport*> reports;
  std::vector<EmittedFile> files;
  for (const std::string& part : parts) {
    const auto found = earlier_.find(part);
    if (found == earlier_.end()) break;
    reports.push_back(&found->second);
    for (EmittedFile& file : files_of(found->second))
      // The reports of one package list the same files.
      if (std::find(files.begin(), files.end(), file) == files.end())
        files.push_back(std::move(file));
  }
  // Needs no lock, because `earlier_` does not change while parts are written. Digests of large
  // files take seconds.
  const bool intact = reports.size() == parts.size() &&
                      std::all_of(files.begin(), files.end(), [&](const EmittedFile& file) {
                        return is_intact(file, folder_);
                      });
  const std::lock_guard lock(*mutex_);
  if (!intact) {
    // The entries remain in the journal file. add() appends new entries after them, and write()
    // keeps the last entry of each part.
    for (const std::string& part : parts) complete_.erase(part);
    return {};
  }
  kept_ += parts.size();
  return reports;
}

Status Journal::adopt(const std::vector<JournalPart>& parts) {
  for (const JournalPart& part : parts) {
    MOEC_TRY(add(part));
    earlier_[part.name] = part.emitted;
  }
  return {};
}

Status Journal::add(const JournalPart& part) {
  const std::lock_guard lock(*mutex_);
  // Writes to the open journal succeed even after its folder was removed. The parts in that folder
  // are lost.
  MOEC_TRY(check_present());
  MOEC_TRY(file_.append(journal_line(part)));
  complete_.insert(part.name);
  return {};
}

Status Journal::add(const FinishedTarget& target) {
  if (std::find(finished_.begin(), finished_.end(), target) != finished_.end()) return {};
  finished_.push_back(target);
  return file_.append(journal_line(target));
}

size_t Journal::kept() const {
  const std::lock_guard lock(*mutex_);
  return kept_;
}

size_t Journal::complete() const {
  const std::lock_guard lock(*mutex_);
  return complete_.size();
}

std::set<std::string> Journal::files() const {
  std::set<std::string> files;
  for (const auto& [name, emitted] : earlier_)
    for (EmittedFile& file : files_of(emitted)) files.insert(std::move(file.path));
  return files;
}

Status Journal::remove() {
  const std::string path = journal_path(folder_);
  if (::unlink(path.c_str()) != 0) return write_error(errno, "remove", path);
  return {};
}

}  // namespace moec
