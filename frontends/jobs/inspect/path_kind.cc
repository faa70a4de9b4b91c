#include "frontends/jobs/inspect/path_kind.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "backends/formats/format.h"
#include "backends/manifest/file_names.h"
#include "frontends/sources/gguf/open_gguf.h"
#include "frontends/sources/hf/index.h"
#include "models/published/published.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kGolden = "golden.json";

// True if an entry of this name exists. Does not check the type, because readers reject entries
// that are not files.
bool has_file(const fs::path& folder, std::string_view name) {
  std::error_code error;
  return fs::exists(folder / name, error);
}

PathKind kind_of_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  if (names_gguf(path)) return PathKind::gguf;
  if (name.ends_with(".safetensors")) return PathKind::weights;
  if (name == kManifestJson || name == kManifestBin) return PathKind::manifest;
  if (name == kConfig) return PathKind::config;
  // The general endings come last, because manifests and configs end with .json, too.
  if (name.ends_with(".ir")) return PathKind::ir;
  if (name.ends_with(".json")) return PathKind::json;
  return format_of_path(path) ? PathKind::shard : PathKind::file;
}

PathKind kind_of_folder(const fs::path& folder) {
  const Format* format = format_of_path(folder.string());
  if (format && format->graph_is_folder) return PathKind::shard;
  // Checks weights first: a checkpoint may also contain a manifest.json, but an export never
  // contains weights with these names.
  if (has_file(folder, kConfig) && (has_file(folder, kWeights) || has_file(folder, kIndexFile)))
    return PathKind::checkpoint;
  if (has_file(folder, kManifestJson)) return PathKind::exported;
  if (has_file(folder, kJournalFile)) return PathKind::unfinished;
  if (has_file(folder, kConfig)) return PathKind::checkpoint;
  if (has_file(folder, kGolden) && !has_file(folder, kWeights)) return PathKind::golden;
  return finished_exports_in(folder.string()).empty() ? PathKind::unknown : PathKind::several;
}

}  // namespace

PathKind kind_of_path(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return kind_of_folder(path);
  if (fs::is_regular_file(path, error)) return kind_of_file(path);
  // A broken link exists as a link, so it must not name a published model.
  if (fs::exists(fs::symlink_status(path, error))) return PathKind::unknown;
  return find_published(path) ? PathKind::published : PathKind::unknown;
}

std::vector<std::string> finished_exports_in(const std::string& folder) {
  std::vector<std::string> found;
  std::error_code error;
  // increment(error) ends the loop on an unreadable folder instead of throwing.
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (has_file(at->path(), kManifestJson)) found.push_back(at->path().string());
  // Directory order depends on the file system.
  std::sort(found.begin(), found.end());
  return found;
}

bool holds_golden(const std::string& folder) { return has_file(folder, kGolden); }

}  // namespace moec
