#include "frontends/jobs/upcycle/result_folder.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "backends/files/folder.h"
#include "backends/files/sync_tree.h"
#include "backends/files/write_error.h"
#include "backends/output/out_folder.h"
#include "frontends/jobs/upcycle/upcycle_plan.h"
#include "frontends/sources/hf/checkpoint.h"
#include "ir/base/byte_text.h"
#include "ir/base/json.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

// The path without a trailing slash, so that it has a last component. Where a link leads to a
// folder, that folder is meant.
std::string plain_path(const std::string& folder) {
  const fs::path normal = fs::path(folder).lexically_normal();
  const fs::path path = normal.has_filename() ? normal : normal.parent_path();
  std::error_code error;
  if (!fs::is_symlink(fs::symlink_status(path, error))) return path.string();
  const fs::path meant = fs::canonical(path, error);
  return error ? path.string() : meant.string();
}

std::string unfinished_path(const std::string& folder) {
  const SplitPath parts = split_path(folder);
  const std::string name = "." + parts.leaf + ".upcycling";
  return parts.parent.empty() ? name : parts.parent + "/" + name;
}

// Whether moec upcycle wrote the checkpoint in a folder.
bool is_own(const std::string& folder) {
  const std::string path = folder + "/config.json";
  const auto text = read_text_file(path, kMaxConfigBytes);
  if (!text) return false;
  const auto json = parse_json(*text, {.file = path});
  return json && json->find(kProvenanceKey) != nullptr;
}

Status check_free(const std::string& folder, bool force) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return {};
  if (!fs::is_directory(folder, error))
    return fail("upcycle.out_foreign", "the path of the output is no folder",
                "give --out another folder", {.file = folder});
  if (fs::is_empty(folder, error)) return {};
  if (!force)
    return fail("upcycle.out_exists", "the output folder holds files",
                "give --out another folder, or --force to replace an earlier result",
                {.file = folder});
  if (is_own(folder)) return {};
  return fail("upcycle.out_foreign", "the folder holds what moec upcycle did not write",
              "give --out another folder", {.file = folder});
}

Status check_space(const std::string& folder, uint64_t bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (error || space.available >= bytes) return {};
  return fail("upcycle.no_space",
              fmt::format("the checkpoint takes {}, and {} are free",
                          binary_bytes(static_cast<double>(bytes)),
                          binary_bytes(static_cast<double>(space.available))),
              "free space there, choose another folder, or fewer --experts", {.file = folder});
}

// Removes a folder and all that it holds.
Status remove_folder(const std::string& path) {
  const SplitPath parts = split_path(path);
  MOEC_ASSIGN(const Folder parent, Folder::open(parts.parent.empty() ? "." : parts.parent));
  return parent.has(parts.leaf) ? parent.remove_all(parts.leaf) : Status();
}

// Gives the folder its name. What has the name gets the other one, in one step where the file
// system can.
Status take_name(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return {};
  if (errno != ENOENT) MOEC_TRY(remove_folder(to));
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  return write_error(errno, "rename the finished folder to", to);
}

}  // namespace

Result<ResultFolder> ResultFolder::begin(const std::string& folder, uint64_t bytes, bool force) {
  const std::string target = plain_path(folder);
  MOEC_TRY(check_free(target, force));
  std::string path = unfinished_path(target);
  MOEC_TRY(create_folder(path));
  MOEC_ASSIGN(FolderLock lock, FolderLock::take(path));
  MOEC_ASSIGN(const Folder opened, Folder::open(path));
  MOEC_ASSIGN(const std::vector<FolderEntry> left, opened.entries());
  for (const FolderEntry& entry : left)
    if (entry.name != kLockFile) MOEC_TRY(opened.remove_all(entry.name));
  ResultFolder result(target, std::move(path), std::move(lock));
  MOEC_TRY(check_space(result.path_, bytes));
  return result;
}

ResultFolder::~ResultFolder() {
  if (!lock_) return;
  lock_.reset();
  (void)remove_folder(path_);
}

Status ResultFolder::publish() && {
  MOEC_TRY(sync_tree(path_));
  lock_.reset();
  Status done = take_name(path_, folder_);
  if (const Status removed = remove_folder(path_); done && !removed) done = removed;
  if (!done) return done;
  const std::string parent = split_path(folder_).parent;
  return sync_folder(parent.empty() ? "." : parent);
}

}  // namespace moec
