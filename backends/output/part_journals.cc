#include "backends/output/part_journals.h"

#include <fmt/format.h>

#include <set>
#include <vector>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/manifest/file_names.h"
#include "backends/output/out_folder.h"
#include "backends/output/part_folders.h"

namespace moec {
namespace {

std::vector<std::string> folders_of(const std::string& out) {
  return part_folders_with(out, std::string(kJournalFile));
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
        MOEC_TRY(link_from_part(out, folder, file.path));
        add_parents(file.path, parents);
      }
  // The files were flushed when they were written; the new directory entries were not.
  for (const std::string& parent : parents)
    MOEC_TRY(sync_folder(fmt::format("{}/{}", out, parent)));
  MOEC_TRY(sync_folder(out));
  return journal.adopt(text.parts);
}

Status remove_export(const std::string& path) {
  MOEC_TRY(remove_files(path, paths_of(files_of_exports(path)), {}));
  MOEC_ASSIGN(const Folder folder, Folder::open(path));
  for (const std::string& own : {std::string(kJournalFile), temporary_of(kJournalFile)})
    MOEC_TRY(folder.remove_file(own));
  return {};
}

}  // namespace

bool has_part_journals(const std::string& out) { return !folders_of(out).empty(); }

Status check_part_journals(const std::string& out, const ExportInputs& inputs) {
  for (const std::string& folder : folders_of(out)) {
    MOEC_ASSIGN(const JournalText text, read_journal(folder));
    // A journal without parts has nothing to adopt, so its inputs may differ.
    if (text.parts.empty()) continue;
    if (Diagnostics found = different_inputs(text.inputs, inputs, folder); !found.empty())
      return fail(std::move(found));
  }
  return {};
}

Status adopt_part_journals(const std::string& out, Journal& journal) {
  for (const std::string& folder : folders_of(out)) MOEC_TRY(adopt(out, folder, journal));
  return {};
}

Status remove_part_journals(const std::string& out) {
  return remove_part_folders(out, remove_export);
}

}  // namespace moec
