// Diagnostics as text and as JSON, and the exit codes of the commands.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// Exit codes of every command.
inline constexpr int kExitFine = 0;
inline constexpr int kExitFellShort = 1;  // a check or a threshold was not met
inline constexpr int kExitBadInput = 2;   // bad input or usage
                                          // 3: internal error (ir/base/invariant.h)
// The exit code that shells expect of a process that a signal ended: 130 for SIGINT, 143 for
// SIGTERM.
constexpr int exit_code_of(int signal) { return 128 + signal; }

nlohmann::ordered_json to_json(const Diagnostic& diagnostic);
nlohmann::ordered_json to_json(const Diagnostics& diagnostics);

// How many findings of one code are reported in full.
inline constexpr size_t kShownNotes = 3;
inline constexpr size_t kShownErrors = 20;
inline constexpr size_t kShownInJson = 100;

// The first `most` diagnostics of each code, and behind the last of them, where there are more, one
// that says how many. A code never hides another one.
Diagnostics first_of_each_code(const Diagnostics& diagnostics, size_t most);
// The same with a number for each code.
using ShownOfCode = std::function<size_t(std::string_view code)>;
Diagnostics first_of_each_code(const Diagnostics& diagnostics, const ShownOfCode& most);

// Prints what --json asks for: "ok", the fields of `report`, and "diagnostics", the first of each
// code. Every report of every command has the two.
void print_json(bool ok, const nlohmann::ordered_json& report, const Diagnostics& diagnostics = {});
// The same with all diagnostics.
void print_json_in_full(bool ok, const nlohmann::ordered_json& report,
                        const Diagnostics& diagnostics);

// What report_failure() prints of a few diagnostics, with a final newline.
std::string failure_text(const Diagnostics& diagnostics, bool json);

// Prints the first diagnostics of each code to stderr, or with `json` {"ok": false, "diagnostics":
// […]} to stdout. Returns kExitBadInput.
int report_failure(const Diagnostics& diagnostics, bool json);
// Prints warnings and notes to stderr: the first of each code, and how many more there are.
void print_notes(const Diagnostics& notes);

}  // namespace moec
