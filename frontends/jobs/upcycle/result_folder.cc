#include "frontends/jobs/upcycle/result_folder.h"

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

tl::unexpected<Diagnostics> foreign(const std::string& folder, std::string cause) {
  return fail("upcycle.out_foreign", std::move(cause), "move it away, or give --out another folder",
              {.file = folder});
}

Result<OwnFiles> read_list(const std::string& folder) {
  const std::string path = folder + "/" + kUpcycleList;
  if (!file_exists(path))
    return foreign(
        folder,
        fmt::format("the folder holds no {}, the list of what moec upcycle wrote", kUpcycleList));
  MOEC_ASSIGN(const std::string text, read_text_file(path, kMaxConfigBytes));
  const JsonReport report(text, path,
                          JsonCodes::all_as("upcycle.out_foreign", "give --out another folder"));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  OwnFiles listed = {{kUpcycleList, ""}};
  MOEC_TRY(fields.each("files", [&](JsonFields& item) -> Status {
    std::string path;
    MOEC_TRY(item.text("path", path));
    MOEC_TRY(item.text("digest", listed[path]));
    return item.finish();
  }));
  MOEC_TRY(fields.finish());
  return listed;
}

// Every file of the folder is listed, and has the digest that the list gives it.
Status check_own(const std::string& folder) {
  MOEC_ASSIGN(const OwnFiles listed, read_list(folder));
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; entry != end;
       entry.increment(error)) {
    if (error) break;
    const std::string path = entry->path().lexically_relative(folder).string();
    const fs::file_status status = entry->symlink_status(error);
    if (path == kLockFile || fs::is_directory(status)) continue;
    if (!listed.contains(path) || !fs::is_regular_file(status))
      return foreign(folder, fmt::format("moec upcycle did not write {}", path));
  }
  return error ? foreign(folder, "the folder cannot be read") : check_replaceable(folder, listed);
}

Status check_free(const std::string& folder, bool force) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(folder, error))) return {};
  if (!fs::is_directory(folder, error))
    return foreign(folder, "the path of the output is not a folder");
  if (fs::is_empty(folder, error)) return {};
  if (!force)
    return fail("upcycle.out_exists", "the output folder holds files",
                "give --out another folder, or --force to replace an earlier result",
                {.file = folder});
  return check_own(folder);
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
  ResultFolder result(target, std::move(path), force, std::move(lock));
  MOEC_TRY(check_space(result.path_, bytes));
  return result;
}

ResultFolder::~ResultFolder() {
  if (!lock_) return;
  lock_.reset();
  (void)remove_folder(path_);
}

Status ResultFolder::list(const std::vector<WrittenFile>& files) const {
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();
  for (const WrittenFile& file : files)
    listed.push_back({{"path", file.name}, {"digest", file.digest}});
  const nlohmann::ordered_json text = {{"files", std::move(listed)}};
  return write_file({path_, kUpcycleList}, text.dump(1) + "\n");
}

Status ResultFolder::publish() && {
  MOEC_TRY(check_free(folder_, force_));
  MOEC_TRY(sync_tree(path_));
  lock_.reset();
  Status done = take_name(path_, folder_);
  if (const Status removed = remove_folder(path_); done && !removed) done = removed;
  if (!done) return done;
  const std::string parent = split_path(folder_).parent;
  return sync_folder(parent.empty() ? "." : parent);
}

}  // namespace moec
