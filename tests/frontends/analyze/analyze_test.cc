// Analyses of tinymoe against what transformers measures (scripts/make_analysis_golden.py).
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "frontends/analyze/analyze_model.h"
#include "tests/frontends/cli/command.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

AnalyzeOptions suite_options(const std::string& source) {
  AnalyzeOptions options;
  options.source = source;
  options.text.prompts = "default";
  options.folder = fresh_folder("out");
  return options;
}

AnalyzeOptions tinymoe_suite() { return suite_options(checkpoint_of("tinymoe")); }

ExpertProfile profile_of(const AnalyzeOptions& options) {
  const auto analysis = analyze_model(options);
  EXPECT_TRUE(analysis.has_value()) << render(analysis.error());
  return analysis ? analysis->profile : ExpertProfile();
}

const ExpertProfile& golden_profile() {
  static const auto profile = read_expert_profile(source_path("tests/data/tinymoe_profile.json"));
  return *profile;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& wanted,
                 const char* what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t e = 0; e < found.size(); ++e)
    EXPECT_NEAR(found[e], wanted[e], 1e-5 * std::max(1.0, wanted[e])) << what << " of expert " << e;
}

void expect_golden(const ExpertProfile& profile) {
  const ExpertProfile& golden = golden_profile();
  EXPECT_EQ(profile.categories, golden.categories);
  ASSERT_EQ(profile.layers.size(), golden.layers.size());
  for (size_t i = 0; i < golden.layers.size(); ++i) {
    const LayerProfile &found = profile.layers[i], &wanted = golden.layers[i];
    EXPECT_EQ(found.tokens, wanted.tokens);
    EXPECT_EQ(found.selections, wanted.selections);
    EXPECT_EQ(found.together, wanted.together);
    EXPECT_EQ(found.by_category, wanted.by_category);
    expect_near(found.mass, wanted.mass, "mass");
    expect_near(found.output_norm, wanted.output_norm, "norm");
    expect_near(found.saliency, wanted.saliency, "saliency");
    expect_near(found.largest_activation, wanted.largest_activation, "activation");
  }
}

std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string file_with(const std::string& name, const std::string& bytes) {
  const std::string path = fresh_folder(name) + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string exported(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {
      "export", checkpoint_of("tinymoe"), "--tokens", "1,16", "--quiet",
      "--out",  fresh_folder("export")};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return words[6];
}

TEST(Analyze, MeasuresWhatTransformersMeasures) { expect_golden(profile_of(tinymoe_suite())); }

TEST(Analyze, MeasuresTheSameInGroupsOfExperts) {
  AnalyzeOptions options = tinymoe_suite();
  options.group_bytes = 1;
  expect_golden(profile_of(options));
}

TEST(Analyze, CountsFollowTheRouter) {
  const ExpertProfile profile = profile_of(tinymoe_suite());
  EXPECT_EQ(profile.model, "qwen3_moe");
  EXPECT_EQ(profile.source, "checkpoint");
  EXPECT_EQ(profile.checkpoint.size(), 32U);
  for (const LayerProfile& layer : profile.layers) {
    const auto sum = [](const auto& list) {
      using Item = std::decay_t<decltype(list.front())>;
      return std::accumulate(list.begin(), list.end(), Item{0});
    };
    EXPECT_EQ(sum(layer.selections), layer.tokens * profile.top_k);
    EXPECT_NEAR(sum(layer.mass), static_cast<double>(layer.tokens),
                1e-4 * static_cast<double>(layer.tokens));
    for (int64_t e = 0; e < profile.experts; ++e) {
      int64_t with_others = 0;
      for (int64_t other = 0; other < profile.experts; ++other)
        if (other != e)
          with_others += layer.together[static_cast<size_t>(pair_at(e, other, profile.experts))];
      EXPECT_EQ(with_others, (profile.top_k - 1) * layer.selections[static_cast<size_t>(e)]);
    }
  }
}

TEST(Analyze, WritesTheSameFilesAgain) {
  AnalyzeOptions first = tinymoe_suite(), second = first;
  first.pairs_file = second.pairs_file = true;
  second.folder = fresh_folder("again");
  ASSERT_TRUE(analyze_model(first));
  ASSERT_TRUE(analyze_model(second));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(first.folder)) {
    ++files;
    if (entry.path().filename() == "analysis.json") continue;  // names the folder
    EXPECT_EQ(bytes_of(entry.path()), bytes_of(second.folder / entry.path().filename()))
        << entry.path();
  }
  EXPECT_EQ(files, 13U);
  EXPECT_EQ(read_expert_profile(first.folder).value(), profile_of(second));
}

TEST(Analyze, DocumentsDoNotSeeOneAnother) {
  AnalyzeOptions both = tinymoe_suite(), one = both;
  both.text = {
      {file_with("a", "def f(x):\n    return x\n"), file_with("b", "1 + 1 = 2\n2 + 2 = 4")},
      {},
      "",
      16};
  one.text = both.text;
  one.text.texts.pop_back();
  const ExpertProfile all = profile_of(both), first = profile_of(one);
  one.text.texts = {both.text.texts[1]};
  const ExpertProfile second = profile_of(one);
  for (size_t i = 0; i < all.layers.size(); ++i)
    for (size_t e = 0; e < 16; ++e)
      EXPECT_EQ(all.layers[i].selections[e],
                first.layers[i].selections[e] + second.layers[i].selections[e]);
}

TEST(Analyze, TokenIdsAreAText) {
  AnalyzeOptions text = tinymoe_suite(), ids = text;
  text.text = {{file_with("text", "def f")}, {}, "", 256};
  ids.text = {{}, {file_with("ids", "100 101 102 32 102")}, "", 256};
  EXPECT_EQ(profile_of(text).layers, profile_of(ids).layers);
}

TEST(Analyze, AnExportOfSingleExpertsTellsAll) {
  AnalyzeOptions options = suite_options(exported({"--experts", "unrolled"}));
  options.exported = true;
  expect_golden(profile_of(options));
}

TEST(Analyze, AnExportWithHostRoutingTellsAll) {
  AnalyzeOptions options =
      suite_options(exported({"--routing", "host", "--max-shard-mb", "moe=0.6"}));
  options.exported = true;
  expect_golden(profile_of(options));
}

TEST(Analyze, AnExportOfBankedExpertsTellsOfRoutingAlone) {
  AnalyzeOptions options = suite_options(exported({"--experts", "bank"}));
  options.exported = true;
  const auto analysis = analyze_model(options);
  ASSERT_TRUE(analysis.has_value()) << render(analysis.error());
  ASSERT_EQ(analysis->notes.size(), 1U);
  EXPECT_EQ(analysis->notes[0].code, "analyze.no_outputs");
  for (size_t i = 0; i < 4; ++i) {
    const LayerProfile& layer = analysis->profile.layers[i];
    EXPECT_EQ(layer.selections, golden_profile().layers[i].selections);
    expect_near(layer.mass, golden_profile().layers[i].mass, "mass");
    EXPECT_TRUE(layer.output_norm.empty());
    EXPECT_TRUE(layer.saliency.empty());
    EXPECT_TRUE(layer.largest_activation.empty());
  }
}

TEST(Analyze, CommandPrintsATableOrJson) {
  const std::string out = fresh_folder("out");
  const std::vector<std::string> words = {
      "analyze", checkpoint_of("tinymoe"), "--prompts", "default", "--out", out, "--quiet"};
  const Outcome table = run_command(words);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("L03     10883"), std::string::npos) << table.out;
  std::vector<std::string> as_json = words;
  as_json.back() = "--json";
  const Outcome json = run_command(as_json);
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_NE(json.out.find("\"capture_mass\""), std::string::npos);
  EXPECT_EQ(json.out, bytes_of(out + "/analysis.json"));
}

std::string error_of(const std::vector<std::string>& flags,
                     const std::string& source = checkpoint_of("tinymoe")) {
  std::vector<std::string> words = {"analyze", source, "--out", fresh_folder("out"), "--quiet"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  return outcome.err;
}

TEST(Analyze, RefusesBadInput) {
  using testing::HasSubstr;
  EXPECT_THAT(error_of({}), HasSubstr("error[analyze.empty]"));
  EXPECT_THAT(error_of({"--text", "/missing"}), HasSubstr("error[analyze.text] /missing"));
  EXPECT_THAT(error_of({"--prompts", "/missing"}), HasSubstr("error[analyze.text] /missing"));
  EXPECT_THAT(error_of({"--tokens", file_with("ids", "1 256")}),
              HasSubstr("error[analyze.vocabulary]"));
  EXPECT_THAT(error_of({"--tokens", file_with("words", "1 x")}),
              HasSubstr("error[analyze.tokens]"));
  EXPECT_THAT(error_of({"--prompts", "default"}, checkpoint_of("mixtral_a")),
              HasSubstr("error[analyze.no_tokenizer]"));
  EXPECT_THAT(error_of({"--prompts", file_with("suite", "{\"category\": \"a\"}\n")}),
              HasSubstr("error[analyze.prompts]"));
  EXPECT_THAT(error_of({"--from-imatrix", file_with("imatrix", "abc")}),
              HasSubstr("error[analyze.imatrix]"));
  EXPECT_THAT(error_of({"--prompts", "default"}, source_path("tests/golden/README.md")),
              HasSubstr("error["));
}

TEST(Analyze, StopsOnRequest) {
  AnalyzeOptions options = tinymoe_suite();
  options.stop = [] { return true; };
  expect_error(analyze_model(options), kAnalyzeInterrupted, "stopped");
}

}  // namespace
}  // namespace moec
