// Checks that a path is of a kind that a command accepts. The error names the kind found and a
// command that accepts it.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Error cli.wrong_source: the path is known to be of a kind that the command does not accept. A
// path of an unknown kind is accepted, because its reader reports what is missing.
Status require_export(const std::string& path);       // check, compare, run, validate
Status require_checkpoint(const std::string& path);   // export
Status require_model(const std::string& path);        // plan
Status require_described(const std::string& path);    // inspect
Status require_golden(const std::string& path);       // validate --golden
Status require_ir(const std::string& path);           // opt
Status require_family_file(const std::string& path);  // family check

}  // namespace moec
