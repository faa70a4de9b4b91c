#include "frontends/checkpoint/result_folder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "backends/files/folder.h"
#include "backends/files/output_file.h"
#include "backends/files/sync_tree.h"
#include "backends/files/write_error.h"
#include "backends/output/out_folder.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/base/byte_text.h"
#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

// Removes a trailing slash, so that the path has a last component, and resolves a symbolic link.
std::string plain_path(const std::string& folder) {
  const fs::path normal = fs::path(folder).lexically_normal();
  const fs::path path = normal.has_filename() ? normal : normal.parent_path();
  std::error_code error;
  // A link is resolved, because renaming would replace the link and not the folder.
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path.string();
  const fs::path meant = fs::canonical(path, error);
  return error ? path.string() : meant.string();
}

std::string unfinished_path(const CheckpointMaker& maker, const std::string& folder) {
  const SplitPath parts = split_path(folder);
  // A hidden name next to the target: the same file system, so that a rename is possible.
  const std::string name = fmt::format(".{}.{}", parts.leaf, maker.unfinished);
  return parts.parent.empty() ? name : parts.parent + "/" + name;
}

tl::unexpected<Diagnostics> foreign(const CheckpointMaker& maker, const std::string& folder,
                                    std::string cause) {
  return fail(maker.code("out_foreign"), std::move(cause),
              "move the existing output away, or pass another folder with --out", {.file = folder});
}

Result<OwnFiles> read_list(const CheckpointMaker& maker, const std::string& folder) {
  const std::string path = folder + "/" + maker.list_file();
  if (!file_exists(path))
    return foreign(maker, folder,
                   fmt::format("the folder has no {}, which lists the files that moec {} wrote",
                               maker.list_file(), maker.command));
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxConfigBytes));
  const JsonReport report(
      text, path, JsonCodes::all_as(maker.code("out_foreign"), "pass another folder with --out"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  OwnFiles listed = {{maker.list_file(), ""}};
  MOEC_TRY(fields.each("files", [&](JsonFields& item) -> Status {
    std::string path;
    MOEC_TRY(item.text("path", path));
    MOEC_TRY(item.text("digest", listed[path]));
    return item.finish();
  }));
  MOEC_TRY(fields.finish());
  return listed;
}

// Checks that the list contains every file of the folder, with the file's digest.
Status check_own(const CheckpointMaker& maker, const std::string& folder) {
  MOEC_ASSIGN(const OwnFiles listed, read_list(maker, folder));
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; entry != end;
       entry.increment(error)) {
    // An unreadable subfolder ends the iteration; the error is reported below.
    if (error) break;
    const std::string path = entry->path().lexically_relative(folder).string();
    const fs::file_status status = entry->symlink_status(error);
    // Folders need no entry: their files are checked one by one.
    if (path == kLockFile || fs::is_directory(status)) continue;
    if (!listed.contains(path) || !fs::is_regular_file(status))
      return foreign(maker, folder, fmt::format("moec {} did not write {}", maker.command, path));
  }
  return error ? foreign(maker, folder, "the folder cannot be read")
               : check_replaceable(folder, listed);
}

Status check_free(const CheckpointMaker& maker, const std::string& folder, bool force) {
  std::error_code error;
  // symlink_status(): a broken link also occupies the name.
  if (!fs::exists(fs::symlink_status(folder, error))) return {};
  if (!fs::is_directory(folder, error))
    return foreign(maker, folder, "the output path is not a folder");
  if (fs::is_empty(folder, error)) return {};
  if (!force)
    return fail(maker.code("out_exists"), "the output folder is not empty",
                "pass another folder with --out, or pass --force to replace an earlier result",
                {.file = folder});
  return check_own(maker, folder);
}

Status check_space(const CheckpointMaker& maker, const std::string& folder, uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  // An unknown free space does not stop the command.
  if (error || space.available >= bytes) return {};
  return fail(maker.code("no_space"),
              fmt::format("the checkpoint needs {}, but only {} are free", decimal_bytes(bytes),
                          decimal_bytes(space.available)),
              "free space there, or pass another folder with --out", {.file = folder});
}

// Removes a folder recursively.
Status remove_folder(const std::string& path) {
  const SplitPath parts = split_path(path);
  MOEC_ASSIGN(const Folder parent, Folder::open(parts.parent.empty() ? "." : parts.parent));
  return parent.has(parts.leaf) ? parent.remove_all(parts.leaf) : Status();
}

// Renames `from` to `to`. Exchanges the two atomically if `to` exists and the file system supports
// it; otherwise removes `to` first.
Status take_name(const std::string& from, const std::string& to) {
  // RENAME_EXCHANGE is atomic: `to` names the old result or the new one at any time.
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
  // ENOENT: nothing exists at `to`. Other errors are treated as missing support for the exchange.
  if (errno != ENOENT) MOEC_TRY(remove_folder(to));
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return write_error(errno, "rename the finished folder to", to);
}

}  // namespace

nlohmann::ordered_json files_json(const std::vector<WrittenFile>& files) {
  auto list = nlohmann::ordered_json::array();
  for (const WrittenFile& file : files)
    list.push_back({{"path", file.name}, {"bytes", file.bytes}, {"xxh3", file.digest}});
  return list;
}

Result<ResultFolder> ResultFolder::begin(const CheckpointMaker& maker, const std::string& folder,
                                         uint64_t bytes, bool force) {
  const std::string target = plain_path(folder);
  MOEC_TRY(check_free(maker, target, force));
  std::string path = unfinished_path(maker, target);
  MOEC_TRY(create_folder(path));
  // The lock is in the unfinished folder, because the target may not exist.
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(path));
  MOEC_ASSIGN(const Folder opened, Folder::open(path));
  MOEC_ASSIGN(const std::vector<FolderEntry> left, opened.entries());
  for (const FolderEntry& entry : left)
    // Removes the remains of a killed run, but keeps the lock that is held.
    if (entry.name != kLockFile) MOEC_TRY(opened.remove_all(entry.name));
  ResultFolder result(maker, target, std::move(path), force, std::move(lock));
  MOEC_TRY(check_space(maker, result.path_, bytes));
  return result;
}

ResultFolder::~ResultFolder() {
  // A published folder has given up its lock.
  if (!lock_) return;
  // Releases the lock first: its file lies in the folder.
  lock_.reset();
  (void)remove_folder(path_);
}

Status ResultFolder::list(const std::vector<WrittenFile>& files) const {
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();
  for (const WrittenFile& file : files)
    listed.push_back({{"path", file.name}, {"digest", file.digest}});
  const nlohmann::ordered_json text = {{"files", std::move(listed)}};
  return write_file({path_, maker_.list_file()}, text.dump(1) + "\n");
}

Status ResultFolder::publish() && {
  // Checked again, because files may have been added since begin().
  MOEC_TRY(check_free(maker_, folder_, force_));
  // All bytes must be durable before the name refers to them.
  MOEC_TRY(sync_tree(path_));
  lock_.reset();
  Status done = take_name(path_, folder_);
  // After an exchange, the old result has the unfinished name.
  if (const Status removed = remove_folder(path_); done && !removed) done = removed;
  if (!done) return done;
  const std::string parent = split_path(folder_).parent;
  // The rename itself is an entry of the parent folder.
  return sync_folder(parent.empty() ? "." : parent);
}

}  // namespace moec
