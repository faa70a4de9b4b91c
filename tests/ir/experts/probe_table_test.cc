#include "ir/experts/probe_table.h"

#include <gmock/gmock.h>

#include "tests/models/expect_error.h"

namespace moec {
namespace {

// Layers 1 and 3 have four experts each and route each token to two.
const ExpertGrid kProbedGrid{{1, 3}, 4, 2};

ProbeTable sample_table() {
  ProbeTable table{32, {1, 3}, 4, {}, {}};
  table.groups = {{"node\"0", {{{1, {0, 1}}, {3, {1, 2, 3}}}}}, {"node1", {{{1, {2, 3}}}}}};
  table.categories = {
      {"code",
       12,
       {{0.5, 0.25, 0.125, 0.125}, {0, 0, 0.75, 0.25}},
       {0.75, 0.625},
       {-1.5, -2.25},
       {0.125, 0.5}},
      {"prose", 8, {{0, 0, 0.5, 0.5}, {0.5, 0.5, 0, 0}}, {0.25, 1}, {-3, -2}, {1, 0}}};
  return table;
}

std::string table_text_with(const std::string& from, const std::string& to) {
  std::string text = probe_table_text(sample_table());
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

void expect_bad_table(const std::string& from, const std::string& to, const std::string& what) {
  expect_error(parse_probe_table(table_text_with(from, to), "probe.json", kProbedGrid),
               "probe_table.bad_value", what);
}

TEST(ProbeTable, RoundTripsAllFields) {
  const auto read = parse_probe_table(probe_table_text(sample_table()), "probe.json", kProbedGrid);
  ASSERT_TRUE(read.has_value()) << render(read.error());
  EXPECT_EQ(*read, sample_table());
}

TEST(ProbeTable, ReadsAsAGroupsFile) {
  const auto groups =
      parse_expert_groups(probe_table_text(sample_table()), "probe.json", kProbedGrid);
  ASSERT_TRUE(groups.has_value()) << render(groups.error());
  EXPECT_EQ(*groups, sample_table().groups);
}

TEST(ProbeTable, FindsTheNearestCategory) {
  const ProbeTable table = sample_table();
  EXPECT_EQ(nearest_category(table, {{0.5, 0.5, 0, 0}, {0, 0, 0.5, 0.5}}).name, "code");
  EXPECT_EQ(nearest_category(table, {{0, 0, 1, 0}, {0.5, 0.5, 0, 0}}).name, "prose");
  ProbeTable equal = table;
  equal.categories[1].routing = equal.categories[0].routing;
  EXPECT_EQ(nearest_category(equal, table.categories[1].routing).name, "code") << "the first";
}

TEST(ProbeTable, RejectsImpossibleValues) {
  expect_bad_table("moec.probe_table", "moec.placement", R"(must be "moec.probe_table")");
  expect_bad_table(R"("version": 1)", R"("version": 2)", "must be 1");
  expect_bad_table(R"("layers": [1, 3])", R"("layers": [1, 2])",
                   "must be the MoE layers of the model");
  expect_bad_table(R"("experts": 4)", R"("experts": 5)", "must be 4, as in the model");
  expect_bad_table(R"("name": "prose")", R"("name": "code")", "is 'code', the name of another");
  expect_bad_table(R"("documents": 12)", R"("documents": 0)", "must be");
  expect_bad_table("[-1.5, -2.25]", "[-1.5]", "must have 2 numbers, one per group");
  expect_bad_table("[-1.5, -2.25]", "[-1.5, 2.25]", "must be finite and from -1e+06 to 0");
  expect_bad_table("[0.125, 0.5]", "[0.125, -0.5]", "must be finite and from 0");
  expect_bad_table("[0.75, 0.625]", "[0.75, 1.625]", "must be finite and from 0 to 1");
  expect_bad_table("[0, 0, 0.75, 0.25]", "[0, 0, 0.75]", "must have lists of 4 shares");
  expect_bad_table("[0, 0, 0.75, 0.25]", "[0, 0, 0.75, 0.75]", "with a sum of at most 1");
  expect_bad_table("[0, 0, 0.75, 0.25]", "[0, 0, -0.75, 0.25]", "shares of at least 0");
  expect_bad_table("[0, 0, 0.75, 0.25]", "[0, 0, null, 0.25]", "shares of at least 0");
}

TEST(ProbeTable, RejectsMalformedTables) {
  const auto code_of = [](const std::string& text) {
    const auto read = parse_probe_table(text, "probe.json", kProbedGrid);
    return read ? "" : read.error().front().code;
  };
  EXPECT_EQ(code_of(table_text_with("\"prefill\": 32,", "")), "probe_table.missing_field");
  EXPECT_EQ(code_of(table_text_with("\"prefill\"", "\"more\": 1, \"prefill\"")),
            "probe_table.unknown_field");
  EXPECT_EQ(code_of(table_text_with("L1:2-3", "L1:7")), "experts.expert");
  EXPECT_EQ(code_of(table_text_with("L1:2-3", "L1:2")), "experts.too_few");
  const std::string text = probe_table_text(sample_table());
  const size_t rows = text.find("\"categories\"");
  EXPECT_EQ(code_of(text.substr(0, rows) + "\"categories\": []}"), "probe_table.bad_value");
}

}  // namespace
}  // namespace moec
