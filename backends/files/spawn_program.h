// Runs another program and waits for it.
#pragma once

#include <string>
#include <vector>

#include "ir/base/diagnostics.h"

namespace moec {

// Runs a program, which is looked for in PATH where it is a name, with these arguments, and returns
// its exit code; 128 and more where a signal ended it. It reads and writes the standard streams of
// this process; with `quiet`, its standard output is this process's standard error. Error
// program.start: it cannot be started.
Result<int> run_program(const std::string& program, const std::vector<std::string>& arguments,
                        bool quiet = false);

// The path of the running program; empty where the system does not tell.
std::string path_of_this_program();

}  // namespace moec
