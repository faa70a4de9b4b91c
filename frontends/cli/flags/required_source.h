// Says what a path is that a command was given and does not take, and which command takes it.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Fail with cli.wrong_source where the path is known to be something that the command does not
// take; say what it is and what takes it. A path of an unknown kind is left to the readers, which
// say what they miss.
Status require_export(const std::string& path);       // check, compare, run, validate
Status require_checkpoint(const std::string& path);   // export
Status require_model(const std::string& path);        // plan
Status require_described(const std::string& path);    // inspect
Status require_golden(const std::string& path);       // validate --golden
Status require_ir(const std::string& path);           // opt
Status require_family_file(const std::string& path);  // family check

}  // namespace moec
