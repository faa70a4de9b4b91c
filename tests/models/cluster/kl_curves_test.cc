#include "models/cluster/kl_curves.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>

namespace moec {
namespace {

const ExpertGrid kKlGrid{{0}, 4, 1, 1, 1};
const std::vector<PromptClass> kKlClasses = {{"all", {{0.25, 0.25, 0.25, 0.25}}},
                                             {"code", {{0.5, 0.5, 0, 0}}}};

TEST(KlCurves, ReproducesAscendingPoints) {
  const std::vector<KlPoint> points = {{0.5, 1.5}, {0, 0}, {0.25, 0.5}, {0.75, 4}};
  const KlCurve curve(points);
  for (const KlPoint& point : points) EXPECT_DOUBLE_EQ(*curve.at(point.lost), point.kl);
  EXPECT_DOUBLE_EQ(*curve.at(0.375), 1) << "between two points";
  EXPECT_FALSE(curve.at(0.8));
  EXPECT_FALSE(curve.at(-0.1));
  EXPECT_FALSE(curve.at(std::nan("")));
  EXPECT_FALSE(KlCurve().at(0.5));
}

TEST(KlCurves, PoolsDescendingPoints) {
  const KlCurve curve({{0.1, 1}, {0.2, 5}, {0.3, 3}, {0.3, 1}, {0.4, 3}, {0.5, 6}});
  EXPECT_DOUBLE_EQ(*curve.at(0.1), 1);
  EXPECT_DOUBLE_EQ(*curve.at(0.2), 10.0 / 3) << "the mean of 5, 2 and 3";
  EXPECT_DOUBLE_EQ(*curve.at(0.4), 10.0 / 3);
  EXPECT_DOUBLE_EQ(*curve.at(0.5), 6);
}

// The report of one comparison with the given scores of the groups 0-2 and 0.
std::string report_text(const std::string& first, const std::string& second) {
  return R"({"ok": true, "reference": "out", "compared": "out", "window": 64, "groups": [
    {"name": "a", "experts": "L0:0-2", "scores": [)" +
         first + R"(]},
    {"name": "b", "experts": "L0:0", "scores": [)" +
         second + R"(]}], "diagnostics": []})";
}

std::string score_text(const std::string& category, const std::string& kl) {
  return R"({"category": ")" + category + R"(", "tokens": 9, "kl": {"mean": )" + kl + "}}";
}

auto read_text(const std::string& text, const std::vector<PromptClass>& classes = kKlClasses) {
  // Tests may run as several processes at once.
  const std::string path = testing::TempDir() + "kl_" +
                           testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
  std::ofstream(path) << text;
  return read_kl_curves({path}, classes, kKlGrid);
}

TEST(KlCurves, ReadsReportsByClass) {
  const auto curves = read_text(report_text(
      score_text("all", "0.5") + "," + score_text("code", "null"),
      score_text("all", "2") + "," + score_text("code", "3") + "," + score_text("prose", "9")));
  ASSERT_TRUE(curves) << render(curves.error());
  ASSERT_EQ(curves->size(), 2u);
  EXPECT_DOUBLE_EQ(*curves->at("all").at(0.25), 0.5);
  EXPECT_DOUBLE_EQ(*curves->at("all").at(0.75), 2);
  EXPECT_DOUBLE_EQ(*curves->at("all").at(0), 0);
  EXPECT_DOUBLE_EQ(*curves->at("code").at(0.5), 3) << "half of the code uses expert 0";
  EXPECT_FALSE(curves->at("code").at(0.6));
}

TEST(KlCurves, OmitsTheOriginForOtherExports) {
  // A report with --against begins with the other export and all of its experts.
  std::string text = report_text(score_text("all", "0.5"), score_text("all", "2"));
  text.replace(text.find(R"("compared": "out")"), 17, R"("compared": "int4")");
  text.replace(text.find("L0:0-2"), 6, "");
  const auto curves = read_text(text);
  ASSERT_TRUE(curves) << render(curves.error());
  EXPECT_DOUBLE_EQ(*curves->at("all").at(0), 0.5);
  EXPECT_DOUBLE_EQ(*curves->at("all").at(0.75), 2);
}

TEST(KlCurves, RejectsUnusableReports) {
  const auto code = [](const std::string& text,
                       const std::vector<PromptClass>& classes = kKlClasses) {
    const auto curves = read_text(text, classes);
    return curves ? "fine" : curves.error().front().code;
  };
  const std::string good = report_text(score_text("all", "1"), score_text("all", "2"));
  EXPECT_EQ(code(good), "fine");
  EXPECT_EQ(code(report_text(score_text("all", "-1"), "")), "kl.bad_value");
  EXPECT_EQ(code(report_text(score_text("all", "\"x\""), "")), "kl.bad_value");
  EXPECT_EQ(code(report_text(score_text("prose", "1"), "")), "kl.bad_value");
  EXPECT_EQ(code(report_text("{}", "")), "kl.missing_field");
  EXPECT_EQ(code("{\"ok\": false}"), "kl.bad_value");
  EXPECT_EQ(code("{\"ok\": true, \"part\": {}}"), "kl.bad_value");
  EXPECT_EQ(code("no JSON"), "kl.syntax");
  std::string wrong = good;
  wrong.replace(wrong.find("L0:0-2"), 6, "L0:0-9");
  EXPECT_EQ(code(wrong), "experts.expert");
  EXPECT_EQ(code(good, {kKlClasses[0], {"all", {{1, 0, 0, 0}}}}), "kl.class");
  const auto none = read_kl_curves({"/nowhere.json"}, kKlClasses, kKlGrid);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().front().code, "kl.file");
}

}  // namespace
}  // namespace moec
