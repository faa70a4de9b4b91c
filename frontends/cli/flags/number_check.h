// Limits of numbers on the command line, for CLI::Option::check().
#pragma once

#include <cstdint>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class Validator;
}

namespace moec {

// A whole number in decimal notation that is not below `least`.
CLI::Validator whole_from(uint64_t least);
// A finite number that is not below 0.
CLI::Validator finite_from_zero();

}  // namespace moec
