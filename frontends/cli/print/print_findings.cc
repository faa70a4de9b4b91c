#include "frontends/cli/print/print_findings.h"

#include <algorithm>

#include "backends/files/stop_signals.h"
#include "frontends/cli/print/say.h"
#include "ir/base/report_json.h"

namespace moec {

void print_json(const nlohmann::ordered_json& report) { print_out("{}\n", json_text(report)); }

std::string failure_text(const Diagnostics& diagnostics, bool json) {
  return json ? failure_json_text(diagnostics) : render(diagnostics) + "\n";
}

int report_failure(const Diagnostics& diagnostics, bool json) {
  // stdout, because the object is the result of a command with --json.
  if (json)
    print_out("{}", failure_json_text(diagnostics));
  else
    // Limited per code, so that one code never hides another.
    say("{}\n", render(first_of_each_code(diagnostics, kShownErrors)));
  return kExitBadInput;
}

int report_stopped(const Diagnostics& diagnostics, std::string_view code, bool json) {
  const int exit_code = report_failure(diagnostics, json);
  // Searches the whole list, because notes such as export.unfinished may follow the error.
  const bool stopped = std::any_of(diagnostics.begin(), diagnostics.end(),
                                   [code](const Diagnostic& found) { return found.code == code; });
  // The signal alone is not decisive: the job may have failed for another reason before it noticed
  // the signal.
  return stopped ? exit_code_of(StopSignals::caught()) : exit_code;
}

void print_notes(const Diagnostics& notes, bool quiet) {
  Diagnostics shown;
  for (const Diagnostic& note : notes)
    // Warnings concern the result, so -q does not omit them.
    if (!quiet || note.severity != Severity::note) shown.push_back(note);
  if (!shown.empty()) say("{}\n", render(first_of_each_code(shown, kShownNotes)));
}

}  // namespace moec
