#include "backends/output/file_set.h"

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/output/folder_lock.h"
#include "backends/output/out_folder.h"

namespace moec {

Status write_set(const std::string& folder, const std::vector<NamedText>& files) {
  MOEC_TRY(create_folder(folder));
  MOEC_ASSIGN(const FolderLock lock, FolderLock::take(folder));
  std::vector<OutputFile> written;
  for (const NamedText& file : files) {
    // All files are complete on disk before the first rename, so a full disk leaves the old set as
    // it was.
    MOEC_ASSIGN(OutputFile output, write_synced({folder, file.name}, file.text));
    written.push_back(std::move(output));
  }
  MOEC_ASSIGN(const Folder opened, Folder::open(folder));
  MOEC_TRY(opened.remove_file(files.back().name));
  for (OutputFile& file : written) MOEC_TRY(file.publish());
  return sync_folder(folder);
}

}  // namespace moec
