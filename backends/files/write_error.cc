#include "backends/files/write_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace moec {
namespace {

// What to do about the errors of one kind. Unused places of `errors` are 0, which is no error.
struct ErrorKind {
  const char* code;
  const char* next;
  std::array<int, 5> errors;
};

constexpr ErrorKind kErrorKinds[] = {
    {"emit.no_space", "free space there or choose another output folder", {ENOSPC, EDQUOT, EFBIG}},
    {"emit.no_permission",
     "make the folder writable or choose another output folder",
     {EACCES, EPERM, EROFS}},
    {"emit.bad_folder",
     "choose an output folder whose path consists of folders only",
     {ENOTDIR, EEXIST, EISDIR, ELOOP, ENAMETOOLONG}},
    {"emit.folder_gone",
     "leave the output folder alone while it is written, and run again",
     {ENOENT, ESTALE}},
    {"emit.too_many_files",
     "raise the limit of open files (ulimit -n), or use fewer jobs",
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
