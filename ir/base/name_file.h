// Findings of code that does not know which file its input came from.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// The findings, of which those that have no place get this file.
inline Diagnostics naming_file(Diagnostics findings, const std::string& file) {
  for (Diagnostic& finding : findings)
    if (finding.place == Place{}) finding.place.file = file;
  return findings;
}

// The findings about the content of a file: each gets its name beside the place that it has.
inline Diagnostics found_in_file(Diagnostics findings, const std::string& file) {
  for (Diagnostic& finding : findings)
    if (finding.place.file.empty()) finding.place.file = file;
  return findings;
}

// The same for the findings of a failure.
template <class T>
Result<T> naming_file(Result<T> result, const std::string& file) {
  if (result) return result;
  return fail(naming_file(std::move(result.error()), file));
}

}  // namespace moec
