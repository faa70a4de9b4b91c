// Of many findings the first of each code are shown, and no code hides another one.
#include "frontends/cli/print/findings.h"

#include <gmock/gmock.h>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Diagnostic note_of(const std::string& code, const std::string& cause) {
  return {Severity::note, code, cause, {}, {}};
}

TEST(Findings, TheFirstOfEachCodeAndHowManyMore) {
  const Diagnostics all = {note_of("a", "1"), note_of("b", "1"), note_of("a", "2"),
                           note_of("a", "3"), note_of("a", "4"), note_of("b", "2")};
  EXPECT_THAT(first_of_each_code(all, 2),
              ElementsAre(all[0], all[1], all[2], note_of("a", "and 2 more of this kind"), all[5]));
  EXPECT_EQ(first_of_each_code(all, 4), all);
}

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
