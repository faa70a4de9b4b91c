#include "frontends/cli/out_folder.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <vector>

#include "backends/files/output_file.h"
#include "frontends/cli/carried_files.h"
#include "frontends/cli/folder_lock.h"
#include "frontends/cli/journal.h"

namespace moec {

namespace fs = std::filesystem;

// What an export makes at the top of its folder. The manifests come first: without them
// what is left of an interrupted removal is no finished export.
static constexpr std::array kOurs = {"manifest.json", "manifest.bin", "report.json", "embed.bin",
                                     "rope.bin",      "attn",         "moe",         "mlp",
                                     "router",        "lm_head"};

static tl::unexpected<Diagnostics> refused(const std::string& folder,
                                           const std::error_code& error) {
  return fail("export.no_permission",
              fmt::format("the output folder cannot be prepared: {}", error.message()),
              "choose a folder that you may write", {.file = folder});
}

// Removes the files of a folder, or a file, unless they are kept, and folders that have become
// empty.
static void sweep(const fs::path& folder, const fs::path& name, const std::set<std::string>& kept,
                  std::error_code& error) {
  const fs::path path = folder / name;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::not_found) return error.clear();
  if (error || (type != fs::file_type::directory && kept.contains(name.string()))) return;
  if (type == fs::file_type::directory) {
    std::vector<fs::path> inside;
    for (const auto& entry : fs::directory_iterator(path, error))
      inside.push_back(entry.path().filename());
    for (const fs::path& entry : inside)
      if (!error) sweep(folder, name / entry, kept, error);
    if (error || !fs::is_empty(path, error)) return;
  }
  if (!error) fs::remove(path, error);
}

std::vector<std::string> OutNames::top_level() const {
  std::vector<std::string> names = {embedding, rope};
  if (!runtime_meta.empty()) names.push_back(runtime_meta);
  if (!stem_prefix.empty()) names.push_back(stem_prefix.substr(0, stem_prefix.find('/')));
  return names;
}

Status create_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) {
    fs::create_directories(folder, error);
    if (error) return refused(folder, error);
  } else if (status.type() != fs::file_type::directory) {
    return fail("export.out_not_folder", "the output path exists and is no folder",
                "choose another --out", {.file = folder});
  }
  return {};
}

Result<bool> holds_files(const std::string& folder) {
  std::error_code error;
  const std::set<fs::path> ours = {kLockFile, temporary_of(kJournalFile)};
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->is_directory(error) && !ours.contains(fs::relative(entry->path(), folder)))
      return true;
  if (error) return refused(folder, error);
  return false;
}

Status remove_exports(const std::string& folder, const OutNames& names,
                      const std::set<std::string>& kept) {
  std::vector<std::string> ours(kOurs.begin(), kOurs.end());
  ours.insert(ours.end(), kCarriedFiles.begin(), kCarriedFiles.end());
  const auto more = names.top_level();
  ours.insert(ours.end(), more.begin(), more.end());
  for (const std::string& name : ours)
    for (const std::string& path : {name, temporary_of(name)}) {
      std::error_code error;
      sweep(folder, path, kept, error);
      if (error) return refused(folder, error);
    }
  return {};
}

}  // namespace moec
