#include "backends/output/out_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <vector>

#include "backends/files/output_file.h"
#include "backends/manifest/manifest_file.h"
#include "backends/output/carried_files.h"
#include "backends/output/folder_lock.h"
#include "backends/output/journal.h"
#include "ir/plan/plan.h"

namespace moec {

namespace fs = std::filesystem;

// Files at the top of an export's folder, besides carried files. The manifests come first: a folder
// without them does not count as finished, so an interrupted removal leaves no broken export.
static constexpr std::array kFiles = {"manifest.json", "manifest.bin", "report.json", "embed.bin",
                                      "rope.bin"};

static tl::unexpected<Diagnostics> refused(const std::string& folder,
                                           const std::error_code& error) {
  return fail("export.no_permission",
              fmt::format("the output folder cannot be prepared: {}", error.message()),
              "choose a folder that you may write to", {.file = folder});
}

// Whether a file or package has the name of a shard: "L03.g2.t16.onnx", "00.mlpackage.part".
static bool is_shard_name(std::string name, std::span<const std::string_view> suffixes) {
  if (const std::string part = temporary_of(""); name.ends_with(part))
    name.resize(name.size() - part.size());
  const size_t number = name.starts_with('L') ? 1 : 0;
  if (number >= name.size() || std::isdigit(static_cast<unsigned char>(name[number])) == 0)
    return false;
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

static std::vector<fs::path> names_in(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(folder, error))
    names.push_back(entry.path().filename());
  return names;
}

// Removes a file, or all files below a folder, except those in `kept`; then removes the folders
// that have become empty. A missing path is no error.
static void remove_tree(const fs::path& folder, const fs::path& name,
                        const std::set<std::string>& kept, std::error_code& error) {
  const fs::path path = folder / name;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::not_found) return error.clear();
  if (error || (type != fs::file_type::directory && kept.contains(name.string()))) return;
  if (type == fs::file_type::directory) {
    for (const fs::path& entry : names_in(path, error))
      if (!error) remove_tree(folder, name / entry, kept, error);
    if (error || !fs::is_empty(path, error)) return;
  }
  if (!error) fs::remove(path, error);
}

// How files of shards are recognised, and which of them are kept.
struct ShardFiles {
  std::span<const std::string_view> suffixes;
  const std::set<std::string>& kept;
};

// Removes the files of shards, except those kept, from a folder of shards. Other files in it stay.
static void remove_shards(const fs::path& folder, const fs::path& name, const ShardFiles& files,
                          std::error_code& error) {
  if (!fs::is_directory(fs::symlink_status(folder / name, error))) return error.clear();
  for (const fs::path& entry : names_in(folder / name, error))
    if (!error && is_shard_name(entry.string(), files.suffixes))
      remove_tree(folder, name / entry, files.kept, error);
  if (!error && fs::is_empty(folder / name, error)) fs::remove(folder / name, error);
}

// The carried files that the manifest in a folder lists. The manifest comes from the user's disk,
// so other names in it are not trusted.
static std::vector<std::string> carried_before(const std::string& folder) {
  std::vector<std::string> carried;
  if (const auto manifest = read_manifest(folder))
    for (const manifest::FileRef& file : manifest->carried)
      if (std::find(kCarriedFiles.begin(), kCarriedFiles.end(), file.path) != kCarriedFiles.end())
        carried.push_back(file.path);
  return carried;
}

std::vector<std::string> OutNames::top_level() const {
  std::vector<std::string> names = {embedding, rope};
  if (!runtime_meta.empty()) names.push_back(runtime_meta);
  return names;
}

Status create_folder(const std::string& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) {
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
  const std::set<fs::path> ours = {kLockFile, temporary_of(kJournalFile)};
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    if (!entry->is_directory(error) && !ours.contains(fs::relative(entry->path(), folder)))
      return true;
  if (error) return refused(folder, error);
  return false;
}

Status remove_exports(const std::string& folder, const OutNames& names,
                      std::span<const std::string_view> suffixes,
                      const std::set<std::string>& kept) {
  std::vector<std::string> files(kFiles.begin(), kFiles.end());
  for (const auto& more : {names.top_level(), carried_before(folder)})
    files.insert(files.end(), more.begin(), more.end());
  std::error_code error;
  for (const std::string& name : files)
    for (const std::string& path : {name, temporary_of(name)})
      if (!error) remove_tree(folder, path, kept, error);
  for (const std::string& prefix : {std::string(), names.stem_prefix})
    for (const std::string_view name : kShardFolders)
      if (!error) remove_shards(folder, prefix + std::string(name), {suffixes, kept}, error);
  if (error) return refused(folder, error);
  return {};
}

}  // namespace moec
