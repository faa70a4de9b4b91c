#include "backends/output/out_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/files/digest.h"
#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/write_error.h"
#include "backends/manifest/file_names.h"
#include "backends/output/folder_lock.h"
#include "backends/output/journal_text.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

tl::unexpected<Diagnostics> refused(const std::string& folder, const std::string& reason) {
  return fail("export.no_permission",
              fmt::format("the output folder cannot be prepared: {}", reason),
              "choose a writable folder", {.file = folder});
}

// Missing permissions have a separate code, because choosing another folder resolves them.
tl::unexpected<Diagnostics> refused(const std::string& folder, const std::error_code& error) {
  const bool lacks_rights = error == std::errc::permission_denied ||
                            error == std::errc::operation_not_permitted ||
                            error == std::errc::read_only_file_system;
  if (lacks_rights) return refused(folder, error.message());
  return write_error(error.value(), "prepare the output folder", folder);
}

// The final path for a path that may contain temporary names.
std::string final_of(const std::string& path) {
  std::string whole;
  for (std::string_view rest = path; !rest.empty();) {
    const size_t end = std::min(rest.find('/'), rest.size());
    std::string_view component = rest.substr(0, end);
    // At most one suffix per component: OutputFile and packages add only one.
    for (const std::string_view suffix : {".part", ".old"})
      if (component.ends_with(suffix)) {
        component.remove_suffix(suffix.size());
        break;
      }
    whole += component;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!rest.empty()) whole += '/';
  }
  return whole;
}

// True if one of the files is below the folder.
bool has_below(const OutFiles& files, const std::string& folder) {
  // The set is sorted, so the first path not before "folder/" decides.
  const auto first = files.lower_bound(folder + "/");
  return first != files.end() && first->starts_with(folder + "/");
}

// True for the lock file and the journal's temporary file, which exist before the journal.
bool is_reserved(const std::string& path) {
  return path == kLockFile || path == temporary_of(kJournalFile);
}

// ---- Files that earlier exports list -----------------------------------------------------------

// The text after `key` up to the next quotation mark; empty if `key` is absent.
std::string_view value_behind(std::string_view text, std::string_view key) {
  const size_t at = text.find(key);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size());
  return text.substr(0, text.find('"'));
}

// All files of a manifest, found by the text form of manifest::FileRef: {"path": "…", "bytes": …,
// "digest": "…"}. This text cannot occur elsewhere in JSON, because quotation marks in strings are
// escaped. Parsing would need many times the memory of the text.
OwnFiles described_files(std::string_view manifest) {
  constexpr std::string_view kPath = "\"path\": \"", kBytes = "\"bytes\":";
  OwnFiles files;
  for (size_t at = manifest.find(kPath); at != std::string_view::npos;
       at = manifest.find(kPath, at)) {
    at += kPath.size();
    const size_t end = std::min(manifest.find('"', at), manifest.size());
    const size_t next = manifest.find_first_not_of("\", \n", end);
    const std::string_view path = manifest.substr(at, end - at);
    // A "path" without "bytes" belongs to another object of the manifest. next - 1 is the quotation
    // mark before "bytes".
    const bool has_bytes = next != std::string_view::npos && next > end &&
                           manifest.substr(next - 1).starts_with(kBytes);
    const std::string_view rest = manifest.substr(end, manifest.find('}', end) - end);
    // A manifest can come from elsewhere. A path that leaves the folder must not be removed by
    // --force.
    if (has_bytes && is_below(path)) files.emplace(path, value_behind(rest, "\"digest\": \""));
  }
  return files;
}

OwnFiles files_of_manifest(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kManifestJson);
  const auto text = read_text_file(path, kMaxManifestBytes);
  // Other programs write files of this name too, for example web applications.
  for (const char* mark : {"\"schema_version\":", "\"tool\":"})
    if (!text || text->find(mark) == std::string::npos) return {};
  OwnFiles files = described_files(*text);
  files.emplace(kManifestJson, "");
  files.emplace(kManifestBin, "");
  return files;
}

// ---- Walks -------------------------------------------------------------------------------------

// Collects the conflicts that check_none_in_the_way() reports.
class ForeignFiles {
 public:
  ForeignFiles(const OutFiles& writes, const OutFiles& own,
               std::span<const std::string_view> package_suffixes)
      : writes_(writes), own_(own), package_suffixes_(package_suffixes) {}

  Status visit(const Folder& folder, const std::string& prefix, bool in_package) {
    MOEC_ASSIGN(const std::vector<FolderEntry> entries, folder.entries());
    for (const FolderEntry& entry : entries) {
      const std::string path = prefix + entry.name;
      // Reserved files belong to moec, although no manifest or journal lists them.
      if (is_reserved(path)) continue;
      const std::string whole = final_of(path);
      if (!entry.is_folder) {
        // A file that moec wrote is not in the way, even if the new export does not write it.
        if (!own_.contains(whole) && (in_package || is_needed(whole))) found_.push_back(path);
      } else if (writes_.contains(whole)) {
        // A folder has the name of a file to write; a rename cannot replace it.
        found_.push_back(path);
      } else if (in_package || has_below(writes_, whole)) {
        MOEC_ASSIGN(const Folder below, folder.open_below(entry.name));
        MOEC_TRY(visit(below, path + "/", in_package || is_package(whole)));
      }
    }
    return {};
  }

  const std::vector<std::string>& found() const { return found_; }

 private:
  bool is_needed(const std::string& path) const {
    // has_below() finds a file with the name of a folder that the export creates.
    return path == kJournalFile || writes_.contains(path) || has_below(writes_, path);
  }
  bool is_package(const std::string& path) const {
    return std::any_of(package_suffixes_.begin(), package_suffixes_.end(),
                       [&](std::string_view suffix) { return path.ends_with(suffix); });
  }

  const OutFiles& writes_;
  const OutFiles& own_;
  std::span<const std::string_view> package_suffixes_;
  std::vector<std::string> found_;
};

Status remove_below(const Folder& folder, const std::string& prefix, const OutFiles& own,
                    const std::set<std::string>& kept) {
  MOEC_ASSIGN(const std::vector<FolderEntry> entries, folder.entries());
  for (const FolderEntry& entry : entries) {
    const std::string path = prefix + entry.name;
    const std::string whole = final_of(path);
    if (!entry.is_folder) {
      // `own` has final names, so a temporary file is removed too. `kept` has exact paths, so a
      // temporary name of a kept file is removed.
      if (own.contains(whole) && !kept.contains(path) && whole != kJournalFile)
        MOEC_TRY(folder.remove_file(entry.name));
    } else if (has_below(own, whole)) {
      MOEC_ASSIGN(const Folder below, folder.open_below(entry.name));
      MOEC_TRY(remove_below(below, path + "/", own, kept));
      MOEC_ASSIGN(const std::vector<FolderEntry> left, below.entries());
      if (left.empty()) MOEC_TRY(folder.remove_empty_folder(entry.name));
    }
  }
  return {};
}

Status remove_own(const std::string& path, const OutFiles& own, const std::set<std::string>& kept) {
  MOEC_ASSIGN(const Folder folder, Folder::open(path));
  if (own.contains(std::string(kManifestJson)))
    MOEC_TRY(folder.remove_file(std::string(kManifestJson)));
  return remove_below(folder, "", own, kept);
}

tl::unexpected<Diagnostics> foreign(const std::string& folder,
                                    const std::vector<std::string>& found) {
  constexpr size_t kShown = 5;
  const size_t shown = std::min(found.size(), kShown);
  std::string names = fmt::format("{}", fmt::join(found.begin(), found.begin() + shown, ", "));
  if (shown < found.size()) names += fmt::format(" and {} more", found.size() - shown);
  return fail("export.foreign_file",
              fmt::format("the output folder has files that no export wrote: {}", names),
              "move them away or choose another --out; --force replaces only files of exports",
              {.file = folder});
}

}  // namespace

std::vector<std::string> OutNames::top_level() const {
  std::vector<std::string> names = {embedding, rope};
  if (!runtime_meta.empty()) names.push_back(runtime_meta);
  names.insert(names.end(), decoder.begin(), decoder.end());
  return names;
}

Status create_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) {
    // status() follows links, so a dangling link looks missing.
    if (fs::is_symlink(fs::symlink_status(folder, error)))
      return fail("export.out_not_folder",
                  "the output path is a link to a folder that does not exist",
                  "create that folder, or choose another --out", {.file = folder});
    fs::create_directories(folder, error);
    if (error) return refused(folder, error);
  } else if (status.type() != fs::file_type::directory) {
    return fail("export.out_not_folder", "the output path exists but is not a folder",
                "choose another --out", {.file = folder});
  }
  return {};
}

Result<bool> holds_files(const std::string& folder) {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const bool is_folder = fs::is_directory(entry->symlink_status(error));
    if (entry.depth() == 0 && is_folder && entry->path().filename() == kPartsFolder) {
      entry.disable_recursion_pending();
      continue;
    }
    if (!is_folder && !is_reserved(entry->path().lexically_relative(folder).string())) return true;
  }
  if (error) return refused(folder, error);
  return false;
}

OutFiles paths_of(const OwnFiles& own) {
  OutFiles paths;
  for (const auto& [path, digest] : own) paths.insert(path);
  return paths;
}

Status check_replaceable(const std::string& folder, const OwnFiles& own) {
  std::map<std::pair<uint64_t, uint64_t>, std::string>
      known;  // digests by device and inode, for files with several links
  for (const auto& [path, digest] : own) {
    const std::string file = fmt::format("{}/{}", folder, path);
    std::error_code error;
    const fs::file_status status = fs::symlink_status(file, error);
    // An empty digest is unknown: the file was incomplete, or it is a manifest, which jobs modify.
    if (digest.empty() || !fs::exists(status)) continue;
    std::string found;  // empty for a link or folder
    if (fs::is_regular_file(status)) {
      MOEC_ASSIGN(const RegularFile opened, RegularFile::open(file));
      std::string& read = known[{opened.identity().device, opened.identity().inode}];
      if (read.empty()) {
        MOEC_ASSIGN(read, digest_file(opened));
      }
      found = read;
    }
    if (found != digest)
      return fail("output.changed", "the file has changed since moec wrote it",
                  "move it away, or choose another --out", {.file = file});
  }
  return {};
}

OwnFiles files_of_exports(const std::string& folder) {
  OwnFiles files = files_of_manifest(folder);
  const std::string path = fmt::format("{}/{}", folder, kJournalFile);
  const auto text = read_text_file(path, kMaxJournalBytes);
  // A missing or oversized journal names no files; the manifest's files remain known.
  if (!text) return files;
  // merge() keeps existing entries: a digest of the manifest remains where the journal has only a
  // name.
  files.merge(files_of_journal(*text, path));
  return files;
}

Status check_none_in_the_way(const std::string& folder, const OutFiles& writes, const OutFiles& own,
                             std::span<const std::string_view> package_suffixes) {
  ForeignFiles foreign_files(writes, own, package_suffixes);
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_TRY(foreign_files.visit(opened, "", false));
  if (!foreign_files.found().empty()) return foreign(folder, foreign_files.found());
  return {};
}

Status remove_files(const std::string& folder, const OutFiles& own,
                    const std::set<std::string>& kept) {
  if (const Status removed = remove_own(folder, own, kept); !removed)
    return refused(folder, removed.error().front().cause);
  return {};
}

}  // namespace moec
