#include "backends/output/files_in_place.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <set>

#include "backends/files/folder.h"
#include "backends/manifest/check_parts.h"

namespace moec {
namespace {

bool is_in_place(const Folder& folder, const manifest::FileRef& file) {
  const SplitPath name = split_path(file.path);
  // Opened component by component, as the files were written, so that a link in the path counts as
  // a missing file.
  const auto parent = folder.open_below(name.parent);
  const auto opened = parent ? parent->open_file(name.leaf) : fail(parent.error());
  return opened && static_cast<int64_t>(opened->size()) == file.bytes;
}

}  // namespace

Status check_files_in_place(const Manifest& manifest, const std::string& folder) {
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  std::string gone;
  manifest::for_each_file(manifest, [&](const manifest::FileRef& file, const std::string&) {
    if (gone.empty() && !is_in_place(opened, file)) gone = file.path;
  });
  if (gone.empty()) return {};
  return fail(
      "emit.file_gone", fmt::format("{} was written, but has been removed or changed since", gone),
      "run the same command to write the file again; do not change the output folder during an "
      "export",
      {.file = opened.path_of(gone)});
}

uint64_t bytes_on_disk(const Manifest& manifest, const std::string& folder) {
  uint64_t bytes = 0;
  std::set<std::pair<dev_t, ino_t>> counted;
  const auto add = [&](const manifest::FileRef& file) {
    struct stat info;
    // check_files_in_place() reports a missing file.
    if (::stat((folder + "/" + file.path).c_str(), &info) == 0 &&
        counted.emplace(info.st_dev, info.st_ino).second)
      bytes += static_cast<uint64_t>(info.st_size);
  };
  if (manifest.has_embedding()) add(manifest.embedding.file);
  for (const manifest::Shard& shard : manifest.shards) manifest::for_each_file(shard, add);
  return bytes;
}

}  // namespace moec
