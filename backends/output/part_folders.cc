#include "backends/output/part_folders.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"

namespace moec {
namespace {

// The folders of the shares that have a journal. A share that was killed before it wrote one has
// nothing to adopt.
std::vector<std::string> folders_of(const std::string& out) {
  return exports_in(fmt::format("{}/{}", out, kPartsFolder));
}

// Replaces a file of that name, which an earlier join may have linked before it was interrupted.
Status link_into(const std::string& out, const std::string& from, const std::string& name) {
  const SplitPath path = split_path(name);
  MOEC_ASSIGN(const Folder root, Folder::open(out));
  MOEC_ASSIGN(const Folder parent, root.create_below(path.parent));
  MOEC_TRY(parent.remove_file(path.leaf));
  MOEC_ASSIGN(const bool linked, link_files({from, name, {}}, {out, name, {}}));
  if (linked) return {};
  return fail("export.no_links", "the file cannot be linked into the output folder",
              "use a file system with hard links, or export without --part",
              {.file = from + "/" + name});
}

// Adds each folder between the output folder and the file.
void add_parents(const std::string& path, std::set<std::string>& folders) {
  for (std::string parent = split_path(path).parent; !parent.empty();
       parent = split_path(parent).parent)
    folders.insert(parent);
}

Status adopt(const std::string& out, const std::string& folder, Journal& journal) {
  MOEC_ASSIGN(JournalText text, read_journal(folder));
  std::erase_if(text.parts, [&](const JournalPart& part) { return journal.lists(part.name); });
  // The shards of a package list the same files.
  std::set<std::string> linked, parents;
  for (const JournalPart& part : text.parts)
    for (const EmittedFile& file : files_of(part.emitted))
      if (linked.insert(file.path).second) {
        MOEC_TRY(link_into(out, folder, file.path));
        add_parents(file.path, parents);
      }
  // The files were flushed when they were written; the new directory entries were not.
  for (const std::string& parent : parents)
    MOEC_TRY(sync_folder(fmt::format("{}/{}", out, parent)));
  MOEC_TRY(sync_folder(out));
  return journal.adopt(text.parts);
}

Status remove_if_empty(const Folder& parent, const std::string& name) {
  MOEC_ASSIGN(const Folder folder, parent.open_below(name));
  MOEC_ASSIGN(const std::vector<FolderEntry> left, folder.entries());
  return left.empty() ? parent.remove_empty_folder(name) : Status();
}

}  // namespace

std::string part_folder(const std::string& out, int64_t index) {
  return fmt::format("{}/{}/{}", out, kPartsFolder, index);
}

bool has_part_folders(const std::string& out) { return !folders_of(out).empty(); }

Status check_part_folders(const std::string& out, const ExportInputs& inputs) {
  for (const std::string& folder : folders_of(out)) {
    MOEC_ASSIGN(const JournalText text, read_journal(folder));
    // A journal without parts has nothing to adopt, so its inputs may differ.
    if (text.parts.empty()) continue;
    if (Diagnostics found = different_inputs(text.inputs, inputs, folder); !found.empty())
      return fail(std::move(found));
  }
  return {};
}

Status adopt_part_folders(const std::string& out, Journal& journal) {
  for (const std::string& folder : folders_of(out)) MOEC_TRY(adopt(out, folder, journal));
  return {};
}

Status remove_part_folders(const std::string& out) {
  MOEC_ASSIGN(const Folder root, Folder::open(out));
  if (!root.has(kPartsFolder)) return {};
  MOEC_ASSIGN(const Folder parts, root.open_below(kPartsFolder));
  MOEC_ASSIGN(const std::vector<FolderEntry> entries, parts.entries());
  for (const FolderEntry& entry : entries) {
    if (!entry.is_folder) continue;
    const std::string path = parts.path_of(entry.name);
    MOEC_TRY(remove_files(path, paths_of(files_of_exports(path)), {}));
    MOEC_ASSIGN(const Folder folder, parts.open_below(entry.name));
    for (const std::string& own :
         {std::string(kJournalFile), temporary_of(kJournalFile), std::string(kLockFile)})
      MOEC_TRY(folder.remove_file(own));
    MOEC_TRY(remove_if_empty(parts, entry.name));
  }
  return remove_if_empty(root, kPartsFolder);
}

}  // namespace moec
