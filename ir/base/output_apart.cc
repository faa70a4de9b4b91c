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

}  // namespace moec
