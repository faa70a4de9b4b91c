// How commands print diagnostics, and their exit codes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"
#include "ir/base/report_json.h"

namespace moec {

// Exit codes of every command.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFellShort = 1;  // a check or a threshold was not met
inline constexpr int kExitBadInput = 2;   // bad input or usage
                                          // 3: internal error (ir/base/invariant.h)
// The exit code that shells expect of a process that a signal ended: 129 for SIGHUP, 130 for
// SIGINT, 143 for SIGTERM.
constexpr int exit_code_of(int signal) { return 128 + signal; }

// How many findings of one code are printed as text.
inline constexpr size_t kShownNotes = 3;
inline constexpr size_t kShownErrors = 20;

// Prints a report (ir/base/report_json.h), for --json.
void print_json(const nlohmann::ordered_json& report);

// What report_failure() prints of a few diagnostics, with a final newline.
std::string failure_text(const Diagnostics& diagnostics, bool json);

// Prints the first diagnostics of each code to stderr, or with `json` {"ok": false, "diagnostics":
// […]} to stdout. Returns kExitBadInput.
int report_failure(const Diagnostics& diagnostics, bool json);
// The same for work that StopSignals may stop with this code: returns the exit code of the signal
// where they did.
int report_stopped(const Diagnostics& diagnostics, std::string_view code, bool json);
// Prints warnings and notes to stderr: the first of each code, and how many more there are. `quiet`
// (-q) leaves out the notes.
void print_notes(const Diagnostics& notes, bool quiet = false);

}  // namespace moec
