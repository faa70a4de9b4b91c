// The folders of a divided job. Each process writes its share to OUT/.parts/I, with a lock there.
// The process that joins them links the files into OUT.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/output/folder_lock.h"
#include "ir/base/share.h"

namespace moec {

// Returns the folder of share `index`, and the folder that a process with an optional share writes.
std::string part_folder(const std::string& out, int64_t index);
std::string part_folder(const std::string& out, const std::optional<JobShare>& share);

// Creates and locks `out` for a share, so that no other process writes the whole job. Without a
// share, does nothing. Errors: those of create_folder() and FolderLock.
Result<std::optional<FolderLock>> lock_whole(const std::string& out,
                                             const std::optional<JobShare>& share);

// Returns the folders of all shares that contain a file `journal`, sorted. A share that was killed
// before it wrote one has nothing to adopt.
std::vector<std::string> part_folders_with(const std::string& out, const std::string& journal);

// Links file `name` of the folder of a share into `out`. Replaces a file of that name, which an
// earlier join may have linked before it was interrupted. Error export.no_links: the file system
// does not support hard links.
Status link_from_part(const std::string& out, const std::string& folder, const std::string& name);

// Calls `remove_own` with the folder of each share, then removes its lock file, and the folders
// that are then empty. Other files stay. Errors: those of `remove_own` and Folder.
Status remove_part_folders(const std::string& out,
                           const std::function<Status(const std::string& folder)>& remove_own);

}  // namespace moec
