#include "ir/base/report_json.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace moec {
namespace {

using testing::ElementsAre;
using Json = nlohmann::ordered_json;

Diagnostic note_of(const std::string& code, const std::string& cause) {
  return {Severity::note, code, cause, {}, {}};
}

// A frequent code must not hide the others.
TEST(ReportJson, KeepsTheFirstOfEachCode) {
  const Diagnostics all = {note_of("a", "1"), note_of("b", "1"), note_of("a", "2"),
                           note_of("a", "3"), note_of("a", "4"), note_of("b", "2")};
  EXPECT_THAT(
      first_of_each_code(all, 2),
      ElementsAre(all[0], all[1], all[2], note_of("a", "and 2 more with this code"), all[5]));
  EXPECT_EQ(first_of_each_code(all, 4), all);
}

TEST(ReportJson, OmitsUnknownPartsOfPlaces) {
  const Diagnostic found = {
      Severity::error, "a.b", "cause", "next", {.file = "f", .offset = 7, .line = 2}};
  EXPECT_EQ(to_json(found), Json::parse(R"({"severity": "error", "code": "a.b", "cause": "cause",
      "next_step": "next", "place": {"file": "f", "offset": 7, "line": 2}})"));
}

TEST(ReportJson, PutsOkFirstAndDiagnosticsLast) {
  EXPECT_EQ(report_json(true, {{"n", 1}}).dump(), R"({"ok":true,"n":1,"diagnostics":[]})");
  EXPECT_EQ(failure_json({}).dump(), R"({"ok":false,"diagnostics":[]})");
}

TEST(ReportJson, LimitsDiagnosticsPerCode) {
  const Diagnostics many(kShownInJson + 5, note_of("a", "1"));
  EXPECT_EQ(report_json(true, Json::object(), many)["diagnostics"].size(), kShownInJson + 1);
  EXPECT_EQ(report_json_in_full(true, Json::object(), many)["diagnostics"].size(), many.size());
}

}  // namespace
}  // namespace moec
