#include "backends/output/part_folders.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "backends/files/folder.h"
#include "backends/output/out_folder.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

Status remove_if_empty(const Folder& parent, const std::string& name) {
  MOEC_ASSIGN(const Folder folder, parent.open_below(name));
  MOEC_ASSIGN(const std::vector<FolderEntry> left, folder.entries());
  return left.empty() ? parent.remove_empty_folder(name) : Status();
}

}  // namespace

std::string part_folder(const std::string& out, int64_t index) {
  return fmt::format("{}/{}/{}", out, kPartsFolder, index);
}

std::string part_folder(const std::string& out, const std::optional<JobShare>& share) {
  return share ? part_folder(out, share->index) : out;
}

Result<std::optional<FolderLock>> lock_whole(const std::string& out,
                                             const std::optional<JobShare>& share) {
  if (!share) return std::nullopt;
  MOEC_TRY(create_folder(out));
  return FolderLock::take(out, LockKind::shared);
}

std::vector<std::string> part_folders_with(const std::string& out, const std::string& journal) {
  std::error_code error;
  std::vector<std::string> folders;
  for (std::filesystem::directory_iterator entry(fmt::format("{}/{}", out, kPartsFolder), error),
       end;
       !error && entry != end; entry.increment(error))
    if (file_exists((entry->path() / journal).string())) folders.push_back(entry->path().string());
  // Sorts, because the order of directory entries is unspecified.
  std::sort(folders.begin(), folders.end());
  return folders;
}

Status link_from_part(const std::string& out, const std::string& folder, const std::string& name) {
  const SplitPath path = split_path(name);
  MOEC_ASSIGN(const Folder root, Folder::open(out));
  MOEC_ASSIGN(const Folder parent, root.create_below(path.parent));
  MOEC_TRY(parent.remove_file(path.leaf));
  MOEC_ASSIGN(const bool linked, link_files({folder, name, {}}, {out, name, {}}));
  if (linked) return {};
  return fail("export.no_links", "the file cannot be linked into the output folder",
              "use a file system with hard links, or run the command without --part",
              {.file = folder + "/" + name});
}

Status remove_part_folders(const std::string& out,
                           const std::function<Status(const std::string& folder)>& remove_own) {
  MOEC_ASSIGN(const Folder root, Folder::open(out));
  if (!root.has(kPartsFolder)) return {};
  MOEC_ASSIGN(const Folder parts, root.open_below(kPartsFolder));
  MOEC_ASSIGN(const std::vector<FolderEntry> entries, parts.entries());
  for (const FolderEntry& entry : entries) {
    if (!entry.is_folder) continue;
    MOEC_TRY(remove_own(parts.path_of(entry.name)));
    MOEC_ASSIGN(const Folder folder, parts.open_below(entry.name));
    MOEC_TRY(folder.remove_file(kLockFile));
    MOEC_TRY(remove_if_empty(parts, entry.name));
  }
  return remove_if_empty(root, kPartsFolder);
}

}  // namespace moec
