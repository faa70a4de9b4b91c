// Validators of flags that accept one of several names, for CLI::Option::check().
#pragma once

#include <string>
#include <vector>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class Validator;
}

namespace moec {

// Accepts one of the names. The error for another word lists the names and suggests the nearest.
CLI::Validator one_of(std::vector<std::string> names);

// Accepts the names of an enum that has enum_names(). `auto`, because CLI::Validator is incomplete
// here.
template <class E>
auto one_of_enum() {
  const auto names = enum_names(E{});
  return one_of({names.begin(), names.end()});
}

}  // namespace moec
