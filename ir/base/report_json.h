// Reports of jobs as JSON. Each job writes its report beside itself (check_json.h, plan_json.h, …);
// here is what all reports have: whether all is well, and what was found.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ir/base/diagnostics.h"

namespace moec {

// {"severity", "code", "cause", "next_step", "place"}; of the place the parts that are known.
nlohmann::ordered_json to_json(const Diagnostic& diagnostic);
// A list.
nlohmann::ordered_json to_json(const Diagnostics& diagnostics);

// The first `most` diagnostics of each code, and behind the last of them, where there are more, one
// that says how many. A code never hides another one.
Diagnostics first_of_each_code(const Diagnostics& diagnostics, size_t most);
// The same with a number for each code.
using ShownOfCode = std::function<size_t(std::string_view code)>;
Diagnostics first_of_each_code(const Diagnostics& diagnostics, const ShownOfCode& most);

// How many diagnostics of one code a report has.
inline constexpr size_t kShownInJson = 100;

// A report: "ok", the members of the object `fields`, and "diagnostics", the first kShownInJson of
// each code.
nlohmann::ordered_json report_json(bool ok, const nlohmann::ordered_json& fields,
                                   const Diagnostics& diagnostics = {});
// The same with all diagnostics.
nlohmann::ordered_json report_json_in_full(bool ok, const nlohmann::ordered_json& fields,
                                           const Diagnostics& diagnostics);
// The report of a job that failed: it has no fields.
nlohmann::ordered_json failure_json(const Diagnostics& diagnostics);
// The same as text, with a final newline.
std::string failure_json_text(const Diagnostics& diagnostics);

// Writes JSON for the tools that read the output of moec.

// The text of a value, without a final newline; `indent` -1 gives a single line. Paths, tensor
// names and arguments may contain any bytes, but JSON is UTF-8: invalid bytes become U+FFFD.
std::string json_text(const nlohmann::ordered_json& value, int indent = 2);

// A string with its quotes and escapes, for files that are written by hand.
std::string json_string(std::string_view text);

}  // namespace moec
