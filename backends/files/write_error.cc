#include "backends/files/write_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

namespace moec {

tl::unexpected<Diagnostics> write_error(int error, std::string_view action,
                                        const std::string& path) {
  const std::string cause =
      fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return fail("emit.no_space", cause, "free space there or choose another output folder",
                  {.file = path});
    case EACCES:
    case EPERM:
    case EROFS:
      return fail("emit.no_permission", cause,
                  "make the folder writable or choose another output folder", {.file = path});
    case ENOTDIR:
    case EEXIST:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return fail("emit.bad_folder", cause,
                  "choose an output folder whose path consists of folders only", {.file = path});
    case ENOENT:
    case ESTALE:
      return fail("emit.folder_gone", cause,
                  "leave the output folder alone while it is written, and run again",
                  {.file = path});
    case EMFILE:
    case ENFILE:
      return fail("emit.too_many_files", cause,
                  "raise the limit of open files (ulimit -n), or use fewer jobs", {.file = path});
    default:
      return fail("emit.write_failed", cause, "check the disk and run again", {.file = path});
  }
}

}  // namespace moec
