// The command line of moec.
#pragma once

namespace moec {

// Runs the command that `argv` names. Returns the exit code (frontends/cli/print/print_findings.h).
int run_cli(int argc, const char* const* argv);

}  // namespace moec
