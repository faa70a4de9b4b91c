#include "backends/files/write_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace moec {
namespace {

// Code and next step for a group of errno values. Unused elements of `errors` are 0, which is not
// an errno.
struct ErrorKind {
  const char* code;
  const char* next;
  std::array<int, 5> errors;
};

constexpr ErrorKind kErrorKinds[] = {
    // EFBIG: the file exceeds the limit of the file system or of ulimit -f.
    {"emit.no_space", "free space there or choose another output folder", {ENOSPC, EDQUOT, EFBIG}},
    {"emit.no_permission",
     "make the folder writable or choose another output folder",
     {EACCES, EPERM, EROFS}},
    {"emit.bad_folder",
     "choose an output folder whose path consists of folders only",
     {ENOTDIR, EEXIST, EISDIR, ELOOP, ENAMETOOLONG}},
    {"emit.folder_gone", "run again without changing the output folder", {ENOENT, ESTALE}},
    {"emit.too_many_files",
     "raise the limit of open files (ulimit -n) or use fewer jobs",
     {EMFILE, ENFILE}},
};

}  // namespace

tl::unexpected<Diagnostics> write_error(int error, std::string_view action,
                                        const std::string& path) {
  const std::string cause =
      fmt::format("cannot {} {}: {}", action, path, std::generic_category().message(error));
  for (const ErrorKind& kind : kErrorKinds)
    if (error != 0 && std::find(kind.errors.begin(), kind.errors.end(), error) != kind.errors.end())
      return fail(kind.code, cause, kind.next, {.file = path});
  return fail("emit.write_failed", cause, "check the disk and run again", {.file = path});
}

}  // namespace moec
