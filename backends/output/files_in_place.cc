#include "backends/output/files_in_place.h"

#include <fmt/format.h>

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

}  // namespace moec
