// The command line: moec inspect | export | check | validate | run | opt | family.
#pragma once

namespace moec {

// Returns the exit code: frontends/cli/print/findings.h.
int run_cli(int argc, const char* const* argv);

}  // namespace moec
