// Diagnostics as text and as JSON, and the exit codes of the commands.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "ir/base/diagnostics.h"

namespace moec {

// Exit codes of every command.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFellShort = 1;  // a check or a threshold was not met
inline constexpr int kExitBadInput = 2;   // bad input or usage
                                          // 3: internal error (ir/base/invariant.h)

nlohmann::ordered_json to_json(const Diagnostic& diagnostic);
nlohmann::ordered_json to_json(const Diagnostics& diagnostics);

// Prints the diagnostics to stderr, or with `json` {"ok": false, "diagnostics": […]} to stdout.
// Returns kExitBadInput.
int report_failure(const Diagnostics& diagnostics, bool json);
// Prints warnings and notes to stderr: the first three of each code, and how many more there are.
void print_notes(const Diagnostics& notes);

}  // namespace moec
