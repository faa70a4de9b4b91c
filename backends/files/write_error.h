// The diagnostic of a failed system call on an output file.
#pragma once

#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// "cannot {action} {path}: …" with a code by the errno: emit.no_space, emit.no_permission,
// emit.bad_folder, emit.folder_gone (the folder was removed under the export), emit.too_many_files,
// emit.write_failed.
tl::unexpected<Diagnostics> write_error(int error, std::string_view action,
                                        const std::string& path);

}  // namespace moec
