// Runs another program and waits for it.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Runs a program and returns its exit code, or 128 plus the signal number if a signal ended it. A
// name without a slash is looked up in PATH. The program shares the standard streams of this
// process; with `quiet`, its standard output goes to standard error. Error: program.start (the
// program cannot be started).
Result<int> run_program(const std::string& program, const std::vector<std::string>& arguments,
                        bool quiet = false);

// Returns the path of the running program; empty if unknown.
std::string path_of_this_program();

}  // namespace moec
