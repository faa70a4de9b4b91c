// Of many findings the first of each code are shown.
#include <gmock/gmock.h>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Rules of the target count each for itself.
TEST(Findings, NotesOfAnExportNameEachRule) {
  const Outcome outcome = export_case("tinymoe", fresh_folder("out"), {"--target", "ane"});
  expect_fine(outcome);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("warning[target.S13] "), HasSubstr("note[target.P4] "),
                                 HasSubstr("warning[target.S13]: and 1 more of this kind"),
                                 HasSubstr("note[target.P4]: and 1 more of this kind")));
}

}  // namespace
}  // namespace moec
