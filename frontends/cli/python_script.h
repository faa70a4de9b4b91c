// Runs a Python script of this program's checkout.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

struct PythonScript {
  std::string python;  // path or name of the interpreter
  std::string path;
  // Code and next step of the error if the exit code is above 1.
  std::string error_code, advice;
};

// Returns the path of `script` (scripts/NAME.py) in the checkout that built this program, or in the
// working folder. Error script.missing, with the next step `advice`.
Result<std::string> find_script(const std::string& script, const std::string& advice);

// Runs the script and returns its exit code, kExitFine or kExitFellShort. With `quiet`, its
// standard output goes to standard error. Errors: program.start (no such interpreter); `error_code`
// for other exit codes, after the script printed its own error.
Result<int> run_script(const PythonScript& script, const std::vector<std::string>& arguments,
                       bool quiet = false);

}  // namespace moec
