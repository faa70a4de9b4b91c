// Checks the code and the message of an expected failure.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/base/diagnostics.h"

namespace moec {

// Expects a failure with this code whose cause or next step contains `part`.
template <class T>
void expect_error(const Result<T>& result, const std::string& code, const std::string& part) {
  ASSERT_FALSE(result.has_value()) << "no error, expected " << code;
  for (const Diagnostic& finding : result.error())
    if (finding.code == code &&
        (finding.cause + "\n" + finding.next_step).find(part) != std::string::npos)
      return;
  ADD_FAILURE() << "expected " << code << " with \"" << part << "\", got\n"
                << render(result.error());
}

}  // namespace moec
