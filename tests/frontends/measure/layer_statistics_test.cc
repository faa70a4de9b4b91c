#include "frontends/jobs/analyze/analysis_csv.h"
#include "frontends/jobs/analyze/plots.h"
#include "frontends/measure/analysis.h"
#include "frontends/measure/prompt_suite.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;

// Documents of 3, 2 and 2 tokens in windows of 2 tokens.
Text three_documents() {
  return cut_documents({{"a", {1, 2, 3}}, {"b", {4, 5}}, {"a", {6, 7}}}, 2);
}

TEST(CutDocuments, StartsWindowsAtDocuments) {
  const Text text = three_documents();
  EXPECT_EQ(text.window, 2);
  EXPECT_THAT(text.tokens, ElementsAre(1, 2, 3, 3, 4, 5, 6, 7));
  EXPECT_EQ(text.count(), 7);
  EXPECT_THAT(text.category_of, ElementsAre(0, 1, 0));
  EXPECT_EQ(text.categories[0], (ProfileCategory{"a", 2, 5}));
  EXPECT_EQ(text.categories[1], (ProfileCategory{"b", 1, 2}));
  std::vector<int64_t> first, counts, halves;
  for (const TextPart& part : text.parts) {
    first.push_back(part.first);
    counts.push_back(part.count);
    halves.push_back(part.half);
  }
  EXPECT_THAT(first, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(counts, ElementsAre(2, 1, 2, 2));
  EXPECT_THAT(halves, ElementsAre(0, 0, 0, 1));  // b is the third document in category order
}

TEST(CutDocuments, SplitsASingleDocumentByWindows) {
  const Text text = cut_documents({{"a", {1, 2, 3}}}, 1);
  EXPECT_EQ(text.parts[0].half, 0);
  EXPECT_EQ(text.parts[1].half, 1);
  EXPECT_EQ(text.parts[2].half, 0);
  EXPECT_EQ(cut_documents({{"a", {1, 2}}}, 256).window, 2);
}

// Each token selects two of three experts: 0 and 1 five times, 0 and 2 twice.
LayerMeasurement counted(const Text& text) {
  LayerCounter counter(4, 3, text, {.outputs = true, .activations = false, .pairs = true});
  for (int64_t token = 6; token >= 0; --token) {
    const int64_t other = token % 4 == 2 ? 2 : 1;
    counter.choose(token, other, 0.25);
    counter.choose(token, 0, 0.75);
    counter.add_output(0, 2, 1.5);
    counter.add_output(other, 4, 1);
  }
  return std::move(counter).finish();
}

TEST(LayerCounter, CountsIndependentlyOfOrder) {
  const Text text = three_documents();
  const LayerMeasurement measured = counted(text);
  const LayerProfile& layer = measured.profile;
  EXPECT_EQ(layer.layer, 4);
  EXPECT_EQ(layer.tokens, 7);
  EXPECT_THAT(layer.selections, ElementsAre(7, 5, 2));
  EXPECT_THAT(layer.mass, ElementsAre(5.25, 1.25, 0.5));
  EXPECT_THAT(layer.output_norm, ElementsAre(2, 4, 4));
  EXPECT_THAT(layer.saliency, ElementsAre(1.5, 1, 1));
  EXPECT_TRUE(layer.largest_activation.empty());
  EXPECT_THAT(layer.together, ElementsAre(5, 2, 0));
  EXPECT_THAT(layer.by_category, ElementsAre(ElementsAre(5, 3, 2), ElementsAre(2, 2, 0)));
  EXPECT_THAT(measured.by_document,
              ElementsAre(ElementsAre(3, 2, 1), ElementsAre(2, 2, 0), ElementsAre(2, 1, 1)));
  EXPECT_THAT(measured.halves, ElementsAre(ElementsAre(5, 4, 1), ElementsAre(2, 1, 1)));
  // The sequence 0 1 0 1 0 2 0 1 0 1 0 1 0 2 without the first use of each expert.
  EXPECT_THAT(measured.reuse, ElementsAre(0, 9, 2));
}

TEST(LayerStatistics, ComputesEntropyAndGini) {
  EXPECT_THAT(entropy_bits(std::vector<int64_t>{5, 5, 5, 5}), DoubleEq(2));
  EXPECT_EQ(entropy_bits(std::vector<int64_t>{0, 7}), 0);
  EXPECT_EQ(entropy_bits(std::vector<int64_t>{0, 0}), 0);
  EXPECT_NEAR(gini({3, 3, 3}), 0, 1e-15);
  EXPECT_DOUBLE_EQ(gini({0, 0, 0, 8}), 0.75);
  EXPECT_EQ(gini({0, 0}), 0);
}

TEST(LayerStatistics, CurvesAddExpertsByRank) {
  const Text text = three_documents();
  const LayerStatistics statistics = layer_statistics(counted(text), DocumentResamples(text));
  EXPECT_THAT(statistics.order, ElementsAre(0, 1, 2));
  EXPECT_THAT(statistics.capture, ElementsAre(7 / 14.0, 12 / 14.0, 1));
  EXPECT_THAT(statistics.capture_mass, ElementsAre(5.25 / 7, 6.5 / 7, 1));
  // Both halves rank experts 0 and 1 first; ties prefer the lower number.
  EXPECT_THAT(statistics.held_out, ElementsAre(DoubleEq(7 / 14.0), DoubleEq(12 / 14.0), 1));
  EXPECT_THAT(statistics.latest, ElementsAre(0, 9 / 14.0, 11 / 14.0));
}

TEST(LayerStatistics, HoldsOutOnlyExistingHalves) {
  const Text text = cut_documents({{"a", {1, 2}}}, 256);
  LayerCounter counter(0, 2, text, {});
  counter.choose(0, 1, 1);
  EXPECT_TRUE(
      layer_statistics(std::move(counter).finish(), DocumentResamples(text)).held_out.empty());
}

TEST(LayerStatistics, DerivesIntervalsFromDocuments) {
  const Text text = three_documents();
  const LayerMeasurement layer = counted(text);
  const LayerStatistics once = layer_statistics(layer, DocumentResamples(text));
  const CategoryShares &a = once.shares[0], &b = once.shares[1];
  EXPECT_THAT(a.share, ElementsAre(0.5, 0.3, 0.2));
  // A resample of two documents contains either one of them twice, or both.
  EXPECT_THAT(a.low, ElementsAre(0.5, 0.25, DoubleEq(1 / 6.0)));
  EXPECT_THAT(a.high, ElementsAre(0.5, DoubleEq(2 / 6.0), 0.25));
  EXPECT_THAT(b.share, ElementsAre(0.5, 0.5, 0));
  EXPECT_TRUE(b.low.empty());
  const LayerStatistics again = layer_statistics(layer, DocumentResamples(text));
  EXPECT_EQ(a.low, again.shares[0].low);
}

Analysis small_analysis() {
  const Text text = three_documents();
  Measurement measured{"family", "", "export", 3, 2, text, {}, {}};
  measured.layers.push_back(counted(text));
  return analysis_of(std::move(measured)).value();
}

TEST(AnalysisCsv, WritesRankings) {
  const Analysis analysis = small_analysis();
  EXPECT_EQ(ranking_csv(analysis.profile.layers[0]),
            "expert_id,total_mass,mass_fraction,selection_count\n"
            "0,5.25,0.75,7\n1,1.25,0.178571429,5\n2,0.5,0.0714285714,2\n");
  const std::string summed = summed_ranking_csv(analysis.profile);
  EXPECT_TRUE(summed.starts_with("# Summed over layers"));
  EXPECT_THAT(summed, HasSubstr("\nexpert_id,total_mass,mass_fraction,selection_count\n0,5.25,"));
}

TEST(AnalysisCsv, LeavesUnmeasuredCellsEmpty) {
  Analysis analysis = small_analysis();
  EXPECT_THAT(experts_csv(analysis), HasSubstr("\n4,1,5,0.357142857,1.25,0.178571429,0.25,4,1,\n"));
  analysis.profile.layers[0].mass.clear();
  EXPECT_THAT(experts_csv(analysis), HasSubstr("\n4,1,5,0.357142857,,,,4,1,\n"));
  EXPECT_THAT(coactivation_csv(analysis.profile), HasSubstr("\n4,0,1,5,1\n4,0,2,2,1\n"));
  EXPECT_THAT(capture_csv(analysis), HasSubstr("\n4,3,1,1,1,0.785714286,1\n"));
  EXPECT_THAT(categories_csv(analysis), HasSubstr("\n4,b,2,0,0,,\n"));
}

TEST(AnalysisPlots, AreValidSvg) {
  const Analysis analysis = small_analysis();
  for (const std::string& picture : {heat_map_svg(analysis.profile), capture_svg(analysis)}) {
    EXPECT_TRUE(picture.starts_with("<svg xmlns="));
    EXPECT_TRUE(picture.ends_with("</svg>\n"));
    EXPECT_EQ(picture.find("nan"), std::string::npos);
  }
  EXPECT_THAT(heat_map_svg(analysis.profile), HasSubstr(">L04<"));
}

TEST(PromptSuite, ReadsLinesOfTextOrTokens) {
  const auto prompts = parse_prompt_suite(
      "{\"category\": \"a\", \"text\": \"x\"}\n\n{\"category\": \"b\", \"tokens\": [1, 2]}", "s");
  ASSERT_TRUE(prompts.has_value()) << render(prompts.error());
  ASSERT_EQ(prompts->size(), 2U);
  EXPECT_EQ((*prompts)[0].text, "x");
  EXPECT_THAT((*prompts)[1].tokens, ElementsAre(1, 2));
}

TEST(PromptSuite, ReportsTheLineOfErrors) {
  const auto prompts =
      parse_prompt_suite("{\"category\": \"a\", \"text\": \"x\"}\n{\"category\": \"b\"}\n", "s");
  expect_error(prompts, "analyze.prompts", "a text or tokens");
  EXPECT_EQ(prompts.error()[0].place.line, 2U);
  expect_error(parse_prompt_suite("\n", "s"), "analyze.prompts", "no prompt");
  expect_error(parse_prompt_suite("[]", "s"), "analyze.prompts", "");
  expect_error(parse_prompt_suite(R"({"category": "a", "text": ""})", "s"), "analyze.prompts",
               "empty");
  expect_error(parse_prompt_suite(R"({"category": "", "text": "b"})", "s"), "analyze.prompts",
               "empty");
}

TEST(PromptSuite, DefaultHasFourCategories) {
  const auto prompts = read_prompt_suite(kDefaultSuite);
  ASSERT_TRUE(prompts.has_value()) << render(prompts.error());
  std::map<std::string, int> counts;
  for (const SuitePrompt& prompt : *prompts) ++counts[prompt.category];
  EXPECT_EQ(counts, (std::map<std::string, int>{
                        {"code", 12}, {"prose", 12}, {"arithmetic", 12}, {"records", 12}}));
}

}  // namespace
}  // namespace moec
