// Runs the command line so that lost output and internal errors are reported.
#pragma once

namespace moec {

// Sets up handlers for broken invariants and uncaught exceptions of any thread. The handlers end
// the process with exit code 3 and report the error on stderr; with `json` also on stdout, as
// internal.error.
void report_internal_errors(bool json);

// Runs run_cli(), then flushes stdout. If a write to stdout failed, reports it on stderr and
// returns kExitBadInput in place of kExitFine. Reports refused resources such as threads
// (system.resource) and refused memory (system.memory); the latter ends the process with
// kExitBadInput. Calls report_internal_errors().
int run_and_flush(int argc, const char* const* argv);

}  // namespace moec
