#include "backends/files/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <memory>
#include <utility>

#include "backends/files/write_error.h"

namespace moec {
namespace {

// O_PATH requires no read permission on the folder. Its descriptors suffice for openat() and the
// other *at() calls of this file.
constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

tl::unexpected<Diagnostics> not_a_folder(const std::string& path, std::string_view what) {
  return fail("emit.bad_folder", fmt::format("{} is {}, expected a folder", path, what),
              "move it away, or choose another output folder", {.file = path});
}

bool is_link(int folder, const std::string& name) {
  struct stat info {};
  return ::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

std::string_view take_component(std::string_view& path) {
  const size_t end = std::min(path.find('/'), path.size());
  const std::string_view component = path.substr(0, end);
  path.remove_prefix(std::min(end + 1, path.size()));
  return component;
}

struct CloseListing {
  void operator()(DIR* listing) const { ::closedir(listing); }
};
using Listing = std::unique_ptr<DIR, CloseListing>;

// Opens the folder for listing; O_PATH descriptors cannot be read.
Listing open_listing(int folder) {
  const int readable = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (readable < 0) return nullptr;
  Listing listing(::fdopendir(readable));
  // fdopendir() owns the descriptor only if it succeeds.
  if (!listing) ::close(readable);
  return listing;
}

bool is_folder_at(int folder, const dirent& entry) {
  // Some file systems do not store the types of entries in directories (DT_UNKNOWN). Their entries
  // require a separate call.
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat info {};
  return ::fstatat(folder, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode);
}

bool is_name(std::string_view component) {
  return !component.empty() && component != "." && component != "..";
}

}  // namespace

bool is_below(std::string_view path) {
  if (path.empty() || path.ends_with('/')) return false;
  // take_component() does not report an empty last component, so a final slash is rejected first.
  while (!path.empty())
    if (!is_name(take_component(path))) return false;
  return true;
}

SplitPath split_path(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

OutputPath OutputPath::of_file(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string parent = whole.parent_path().string();
  // The process id distinguishes the temporary names of two processes that write the same file.
  return {parent.empty() ? "." : parent, whole.filename().string(), std::to_string(::getpid())};
}

Folder::Folder(Folder&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Folder::~Folder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Folder> Folder::open(const std::string& path) {
  Folder folder(path, ::open(path.c_str(), kFolderFlags));
  if (folder.descriptor_ < 0) return write_error(errno, "open folder", path);
  return folder;
}

Result<Folder> Folder::create(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return write_error(error.value(), "create folder", path);
  return open(path);
}

Result<Folder> Folder::open_below(std::string_view name) const { return below(name, false); }

Result<Folder> Folder::create_below(std::string_view name) const { return below(name, true); }

Result<Folder> Folder::below(std::string_view name, bool create) const {
  // Each component is opened relative to the previous one without following links. A single
  // openat() would follow links in all but the last component.
  Folder current(path_, ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0));
  if (current.descriptor_ < 0) return write_error(errno, "open folder", path_);
  while (!name.empty()) {
    const std::string component(take_component(name));
    // EEXIST is not an error: the folder may exist already, or another thread may create it.
    // enter() fails if the entry is not a folder.
    if (create && ::mkdirat(current.descriptor_, component.c_str(), 0777) != 0 && errno != EEXIST)
      return write_error(errno, "create folder", current.path_of(component));
    MOEC_ASSIGN(current, current.enter(component));
  }
  return current;
}

Result<Folder> Folder::enter(const std::string& name) const {
  const std::string path = path_of(name);
  if (!is_name(name)) return not_a_folder(path, "not a path below the folder");
  Folder folder(path, ::openat(descriptor_, name.c_str(), kFolderFlags | O_NOFOLLOW));
  if (folder.descriptor_ >= 0) return folder;
  // Saved before the call of is_link(), which may change errno.
  const int error = errno;
  if (is_link(descriptor_, name)) return not_a_folder(path, "a link, which is not followed");
  return write_error(error, "open folder", path);
}

Result<std::vector<FolderEntry>> Folder::entries() const {
  const Listing listing = open_listing(descriptor_);
  if (!listing) return write_error(errno, "list", path_);
  std::vector<FolderEntry> found;
  while (true) {
    // readdir() returns null both at the end and on an error; only errno distinguishes them.
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (!entry) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") found.push_back({name, is_folder_at(descriptor_, *entry)});
  }
  if (errno != 0) return write_error(errno, "list", path_);
  // The order of readdir() depends on the file system; results must not.
  std::sort(found.begin(), found.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.name < b.name; });
  return found;
}

bool Folder::has(const std::string& name) const {
  struct stat info {};
  return ::fstatat(descriptor_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<int> Folder::create_file(const std::string& name) const {
  MOEC_TRY(remove_file(name));
  const int descriptor = ::openat(descriptor_, name.c_str(),
                                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) return write_error(errno, "create", path_of(name));
  return descriptor;
}

Result<RegularFile> Folder::open_file(const std::string& name) const {
  return RegularFile::adopt(
      path_of(name),
      ::openat(descriptor_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
}

Status Folder::remove_file(const std::string& name) const {
  // unlinkat() removes a link itself, not its target.
  if (::unlinkat(descriptor_, name.c_str(), 0) != 0 && errno != ENOENT)
    return write_error(errno, "remove", path_of(name));
  return {};
}

Status Folder::remove_empty_folder(const std::string& name) const {
  if (::unlinkat(descriptor_, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
    return write_error(errno, "remove folder", path_of(name));
  return {};
}

Status Folder::remove_all(const std::string& name) const {
  struct stat info {};
  if (::fstatat(descriptor_, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
    return {};
  // A link to a folder is not a folder here (AT_SYMLINK_NOFOLLOW), so removal never leaves this
  // folder.
  if (!S_ISDIR(info.st_mode)) return remove_file(name);
  MOEC_ASSIGN(const Folder folder, enter(name));
  MOEC_ASSIGN(const std::vector<FolderEntry> inside, folder.entries());
  for (const FolderEntry& entry : inside) MOEC_TRY(folder.remove_all(entry.name));
  return remove_empty_folder(name);
}

Status Folder::rename(const std::string& from, const std::string& to) const {
  if (::renameat(descriptor_, from.c_str(), descriptor_, to.c_str()) != 0)
    return write_error(errno, "rename to", path_of(to));
  return {};
}

bool Folder::link_file(const std::string& name, const Folder& other, const std::string& as) const {
  // Without AT_SYMLINK_FOLLOW, a source that is a symbolic link is linked itself, not its target.
  return ::linkat(descriptor_, name.c_str(), other.descriptor_, as.c_str(), 0) == 0;
}

Result<bool> link_files(const OutputPath& file, const OutputPath& as) {
  const SplitPath from = split_path(file.name), to = split_path(as.name);
  MOEC_ASSIGN(const Folder from_root, Folder::open(file.folder));
  MOEC_ASSIGN(const Folder to_root, Folder::open(as.folder));
  MOEC_ASSIGN(const Folder from_folder, from_root.open_below(from.parent));
  MOEC_ASSIGN(const Folder to_folder, to_root.create_below(to.parent));
  return from_folder.link_file(from.leaf, to_folder, to.leaf);
}

}  // namespace moec
