// The command line: moec inspect | plan | export | check | validate | run | opt | family.
#pragma once

namespace moec {

// Runs the command that the arguments name. Returns the exit code (frontends/cli/print/findings.h).
int run_cli(int argc, const char* const* argv);

}  // namespace moec
