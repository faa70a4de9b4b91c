// The common parts of all JSON reports: success and diagnostics. Each job defines its report in a
// separate file (check_json.h, plan_json.h, …).
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// {"severity", "code", "cause", "next_step", "place"}; `place` has only the known parts.
nlohmann::ordered_json to_json(const Diagnostic& diagnostic);
// An array of the above.
nlohmann::ordered_json to_json(const Diagnostics& diagnostics);

// Returns the first `most` diagnostics of each code. If a code has more, one further diagnostic
// states how many. The limit applies per code, so that a frequent code does not hide the others.
Diagnostics first_of_each_code(const Diagnostics& diagnostics, size_t most);
// As above, with a different limit for each code.
using ShownOfCode = std::function<size_t(std::string_view code)>;
Diagnostics first_of_each_code(const Diagnostics& diagnostics, const ShownOfCode& most);

// Maximum number of diagnostics per code in a report.
inline constexpr size_t kShownInJson = 100;

// A report: "ok", the members of the object `fields`, and "diagnostics" with the first kShownInJson
// per code.
nlohmann::ordered_json report_json(bool ok, const nlohmann::ordered_json& fields,
                                   const Diagnostics& diagnostics = {});
// A report with all diagnostics.
nlohmann::ordered_json report_json_in_full(bool ok, const nlohmann::ordered_json& fields,
                                           const Diagnostics& diagnostics);
// The report of a failed job: `ok` is false, and there are no fields.
nlohmann::ordered_json failure_json(const Diagnostics& diagnostics);
// The report of a failed job as text, with a final newline.
std::string failure_json_text(const Diagnostics& diagnostics);

// Text of JSON values, for tools that read the output of moec.

// Returns the text of a value, without a final newline; `indent` -1 selects a single line. Paths,
// tensor names and arguments may contain any bytes, but JSON is UTF-8: invalid bytes become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

// Returns a JSON string with quotes and escapes, for writers that format JSON themselves.
std::string json_string(std::string_view text);

}  // namespace moec
