// Runs one case of an `.ir` test file.
#pragma once

#include <string>
#include <vector>

#include "tests/ir_test/test_case.h"

namespace moec::ir_test {

struct Outcome {
  std::vector<std::string> failures;   // one message each
  std::optional<std::string> printed;  // the text for `// expect`, if any
};

Outcome run_case(const TestCase& test, const std::string& file);

}  // namespace moec::ir_test
