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

constexpr uint64_t kMaxJournalBytes = uint64_t{1} << 28;

std::string journal_path(const std::string& folder) { return folder + "/" + kJournalFile; }
std::string manifest_path(const std::string& folder) {
  return fmt::format("{}/{}", folder, kManifestJson);
}
std::string name_of(const std::string& folder) {
  return std::filesystem::path(folder).filename().string();
}

std::vector<EmittedFile> files_of(const EmitReport& emitted) {
  std::vector<EmittedFile> files = emitted.data;
  for (const EmittedGraph& graph : emitted.graphs) files.push_back(graph.file);
  return files;
}

bool is_intact(const EmittedFile& file, const std::string& folder) {
  const std::string path = folder + "/" + file.path;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes != file.bytes) return false;
  const auto digest = digest_file(path);
  return digest && *digest == file.digest;
}

// An error for each input that differs: "option --tokens was 1,16, now it is 1".
Diagnostics differences(const ExportInputs& was, const ExportInputs& now,
                        const std::string& folder) {
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
           fmt::format("the folder holds an unfinished export, for which {} was {}, now it is {}",
                       name, value(was, name), value(now, name)),
           "give the same inputs as before, or start over with --force",
           {.file = folder}});
  return found;
}

}  // namespace

Result<JournalText> read_journal(const std::string& folder) {
  MOEC_ASSIGN(const std::string text, read_text_file(journal_path(folder), kMaxJournalBytes));
  return parse_journal(text, journal_path(folder));
}

Result<FinishedTarget> describe_finished(const std::string& folder) {
  FinishedTarget target{.folder = name_of(folder)};
  MOEC_ASSIGN(target.manifest, digest_file(manifest_path(folder)));
  MOEC_ASSIGN(JournalText journal, read_journal(folder));
  journal.finished.clear();  // so that journals do not contain one another
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

Result<Journal> Journal::write(const std::string& folder, const JournalText& text) {
  MOEC_TRY(write_file(journal_path(folder), journal_text(text)));
  MOEC_ASSIGN(AppendFile file, AppendFile::open(journal_path(folder)));
  MOEC_TRY(sync_folder(folder));
  Journal journal(folder, std::move(file));
  for (const JournalPart& part : text.parts) {
    journal.earlier_[part.name] = part.emitted;
    journal.complete_.insert(part.name);
  }
  journal.finished_ = text.finished;
  return journal;
}

Result<Journal> Journal::begin(const std::string& folder, const ExportInputs& inputs) {
  return write(folder, {inputs, {}, {}});
}

// Rewrites the file without torn lines, so that no new entry is appended to half a line. A journal
// without parts has nothing to keep, so its inputs may differ.
Result<Journal> Journal::resume(const std::string& folder, const ExportInputs& inputs,
                                const JournalText& earlier) {
  if (earlier.parts.empty()) return begin(folder, inputs);
  if (Diagnostics found = differences(earlier.inputs, inputs, folder); !found.empty())
    return fail(std::move(found));
  return write(folder, earlier);
}

const EmitReport* Journal::find_complete(const std::string& part) {
  const auto found = earlier_.find(part);
  if (found == earlier_.end()) return nullptr;
  const std::vector<EmittedFile> files = files_of(found->second);
  const bool intact = std::all_of(files.begin(), files.end(), [&](const EmittedFile& file) {
    return is_intact(file, folder_);
  });
  const std::lock_guard lock(*mutex_);
  if (!intact) {
    complete_.erase(part);
    return nullptr;
  }
  ++kept_;
  return &found->second;
}

Status Journal::add(const JournalPart& part) {
  const std::lock_guard lock(*mutex_);
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
