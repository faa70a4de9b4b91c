// Adds the file name or the place to findings of code that does not know the file of its input.
#pragma once

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Sets the file of findings without a place.
inline Diagnostics naming_file(Diagnostics findings, const std::string& file) {
  for (Diagnostic& finding : findings)
    if (finding.place == Place{}) finding.place.file = file;
  return findings;
}

// Sets the place of a failure's findings without a place.
template <class T>
Result<T> naming_place(Result<T> result, const Place& place) {
  if (result) return result;
  for (Diagnostic& finding : result.error())
    if (finding.place == Place{}) finding.place = place;
  return result;
}

// Sets the file of findings without a file; keeps the other parts of their places.
inline Diagnostics found_in_file(Diagnostics findings, const std::string& file) {
  for (Diagnostic& finding : findings)
    if (finding.place.file.empty()) finding.place.file = file;
  return findings;
}

// Applies naming_file() to the findings of a failure.
template <class T>
Result<T> naming_file(Result<T> result, const std::string& file) {
  if (result) return result;
  return fail(naming_file(std::move(result.error()), file));
}

}  // namespace moec
