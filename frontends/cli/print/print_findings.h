// Printing of diagnostics, and the exit codes of commands.
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
// Exit code by shell convention of a process that a signal ended: 129 for SIGHUP, 130 for SIGINT,
// 143 for SIGTERM.
constexpr int exit_code_of(int signal) { return 128 + signal; }

// Maximum number of findings per code that are printed as text.
inline constexpr size_t kShownNotes = 3;
inline constexpr size_t kShownErrors = 20;

// Prints a report (ir/base/report_json.h), for --json.
void print_json(const nlohmann::ordered_json& report);

// Returns the text that report_failure() prints, without its limit per code and with a final
// newline.
std::string failure_text(const Diagnostics& diagnostics, bool json);

// Prints the first diagnostics of each code to stderr; with `json`, prints {"ok": false,
// "diagnostics": […]} to stdout. Returns kExitBadInput.
int report_failure(const Diagnostics& diagnostics, bool json);
// Like report_failure(), for work that a signal may stop: if a diagnostic has the code `code`,
// returns the exit code of the caught signal.
int report_stopped(const Diagnostics& diagnostics, std::string_view code, bool json);
// Prints warnings and notes to stderr: the first of each code, and the number of further ones.
// `quiet` (-q) omits the notes.
void print_notes(const Diagnostics& notes, bool quiet = false);

}  // namespace moec
