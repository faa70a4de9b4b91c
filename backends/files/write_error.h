// Diagnostics of failed system calls on output files.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Returns "cannot {action} {path}: …" with a code for the errno: emit.no_space, emit.no_permission,
// emit.bad_folder, emit.folder_gone (the folder was removed during the export),
// emit.too_many_files, emit.write_failed.
tl::unexpected<Diagnostics> write_error(int error, std::string_view action,
                                        const std::string& path);

}  // namespace moec
