// Reports show only the first findings of each code.
#include <gmock/gmock.h>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Each rule of a target is counted separately.
TEST(Findings, ShowsEachRuleOfATarget) {
  const Outcome outcome = export_case("tinymoe", fresh_folder("out"), {"--target", "ane"});
  expect_fine(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning[target.S13] "), HasSubstr("note[target.P4] "),
                                 HasSubstr("warning[target.S13]: and 1 more with this code"),
                                 HasSubstr("note[target.P4]: and 1 more with this code")));
}

}  // namespace
}  // namespace moec
