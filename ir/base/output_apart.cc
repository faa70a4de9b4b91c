#include "ir/base/output_apart.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <filesystem>

#include "ir/base/parse_number.h"

namespace moec {

Status check_apart_from(const std::string& source, const std::string& out,
                        const std::string& flag) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::absolute(out, error).lexically_normal();
  if (error || source.empty() || out.empty()) return {};
  for (; path.has_relative_path(); path = path.parent_path()) {
    // Compares files instead of names, because several paths can lead to one file. equivalent() is
    // false for a path that does not exist.
    if (!fs::equivalent(path, source, error)) continue;
    return fail("output.in_source", fmt::format("{} {} lies in the input, {}", flag, out, source),
                "choose another file", {.file = out});
  }
  return {};
}

Status check_user_output(const UserOutput& out, const std::string& source) {
  namespace fs = std::filesystem;
  if (out.path.empty()) return {};
  MOEC_TRY(check_apart_from(source, out.path, out.flag));
  std::error_code error;
  // symlink_status() does not follow links, so a link is refused whatever its target is.
  const fs::file_status found = fs::symlink_status(out.path, error);
  if (fs::is_symlink(found))
    return fail("output.link", fmt::format("{} {} is a link", out.flag, out.path),
                "pass the target of the link", {.file = out.path});
  if (fs::is_directory(found))
    return fail("output.exists", fmt::format("{} {} is a folder", out.flag, out.path),
                "pass a file", {.file = out.path});
  // Only an existing regular file would be replaced; devices and pipes are accepted.
  if (!fs::is_regular_file(found) || out.force) return {};
  return fail("output.exists", fmt::format("{} {} exists already", out.flag, out.path),
              "choose another file, or pass --force to replace it", {.file = out.path});
}

void remove_abandoned(const std::string& path, std::string_view ending) {
  namespace fs = std::filesystem;
  const fs::path parent = fs::path(path).parent_path();
  const std::string start = fs::path(path).filename().string() + ".";
  std::error_code error;
  for (fs::directory_iterator entry(parent.empty() ? "." : parent, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.size() <= start.size() + ending.size() || !name.starts_with(start) ||
        !name.ends_with(ending))
      continue;
    const size_t digits = name.size() - start.size() - ending.size();
    const auto writer = parse_number<pid_t>(std::string_view(name).substr(start.size(), digits));
    std::error_code ignored;
    // ESRCH shows that the writer's process is gone. kill() also fails with EPERM, for a process of
    // another user.
    if (writer && *writer > 0 && ::kill(*writer, 0) != 0 && errno == ESRCH)
      fs::remove(entry->path(), ignored);
  }
}

}  // namespace moec
