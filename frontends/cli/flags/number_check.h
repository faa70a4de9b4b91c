// Validators of numeric flags, for CLI::Option::check().
#pragma once

#include <cstdint>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class Validator;
}

namespace moec {

// Accepts a whole number in decimal notation that is at least `least`.
CLI::Validator whole_from(uint64_t least);
// Accepts a finite number that is at least 0.
CLI::Validator finite_from_zero();

}  // namespace moec
