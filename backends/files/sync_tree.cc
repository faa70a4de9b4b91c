#include "backends/files/sync_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "backends/files/write_error.h"
#include "ir/base/refusals.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

// File systems that cannot flush a folder return EINVAL.
int sync_path(const std::string& path, int flags) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return errno;
  const int error = ::fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
  ::close(fd);
  return error;
}

}  // namespace

Status sync_tree(const std::string& folder) {
  std::vector<std::string> paths = {folder};
  std::error_code failed;
  // The iterator does not follow links to folders, so the walk stays in the tree.
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end;
       entry.increment(failed))
    paths.push_back(entry->path().string());
  if (failed) return write_error(failed.value(), "list", folder);
  // One element per path, so threads need no lock. The first failed path determines the reported
  // error, regardless of the order in which threads finish.
  std::vector<int> errors(paths.size());
  ThreadGroup threads;
  for (size_t i = 0; i < paths.size(); ++i) {
    const auto sync = [&, i] { errors[i] = sync_path(paths[i], O_NOFOLLOW); };
    if (!threads.start(sync)) sync();
  }
  threads.join();
  for (size_t i = 0; i < paths.size(); ++i)
    if (errors[i] != 0) return write_error(errors[i], "flush", paths[i]);
  return {};
}

Status sync_folder(const std::string& folder) {
  if (const int error = sync_path(folder, O_DIRECTORY)) return write_error(error, "flush", folder);
  return {};
}

}  // namespace moec
