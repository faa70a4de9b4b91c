// Runs one case of an `.ir` test file.
#pragma once

#include <string>
#include <vector>

#include "tests/ir_test/test_case.h"

namespace moec::ir_test {

struct Outcome {
  std::vector<std::string> failures;   // each a message for the reader
  std::optional<std::string> printed;  // the text that `// expect` should hold, when there is one
};

Outcome run_case(const TestCase& test, const std::string& file);

}  // namespace moec::ir_test
