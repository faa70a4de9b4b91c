#include "ir/base/output_apart.h"

#include <fmt/format.h>

#include <filesystem>

namespace moec {

Status check_apart_from(const std::string& source, const std::string& out,
                        const std::string& flag) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path path = fs::absolute(out, error).lexically_normal();
  if (error || source.empty() || out.empty()) return {};
  for (; path.has_relative_path(); path = path.parent_path()) {
    if (!fs::equivalent(path, source, error)) continue;
    return fail("output.in_source",
                fmt::format("{} {} would write into what is read, {}", flag, out, source),
                "choose another file", {.file = out});
  }
  return {};
}

Status check_user_output(const UserOutput& out, const std::string& source) {
  namespace fs = std::filesystem;
  if (out.path.empty()) return {};
  MOEC_TRY(check_apart_from(source, out.path, out.flag));
  std::error_code error;
  const fs::file_status found = fs::symlink_status(out.path, error);
  if (fs::is_symlink(found))
    return fail("output.link", fmt::format("{} {} is a link", out.flag, out.path),
                "name the file that it leads to", {.file = out.path});
  if (fs::is_directory(found))
    return fail("output.exists", fmt::format("{} {} is a folder", out.flag, out.path),
                "name a file", {.file = out.path});
  if (!fs::is_regular_file(found) || out.force) return {};
  return fail("output.exists", fmt::format("{} {} is there already", out.flag, out.path),
              "name another file, or give --force to replace it", {.file = out.path});
}

}  // namespace moec
