// Compares analyses of tinymoe with measurements of transformers (scripts/make_analysis_golden.py).
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "frontends/jobs/analyze/analyze_model.h"
#include "frontends/sources/gguf/gguf.h"
#include "tests/files.h"
#include "tests/frontends/cli/command.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

std::string analysis_input(const std::string& name, const std::string& bytes) {
  const std::string path = fresh_folder(name) + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

// Four documents in two categories, 165 tokens.
std::string small_suite() {
  return analysis_input(
      "suite.jsonl",
      R"({"category": "code", "text": "def f(x):\n    return x + 1\n\nprint(f(3))\n"}
{"category": "prose", "text": "The weights of a layer are read once, and dropped.\n"}
{"category": "code", "text": "for line in open(path):\n    total += int(line)\n"}
{"category": "prose", "text": "A failed check is an error."}
)");
}

AnalyzeOptions analysis_options(const std::string& source, const std::string& out = "out") {
  AnalyzeOptions options;
  options.source = source;
  options.text.prompts = small_suite();
  options.text.window = 32;
  options.folder = fresh_folder(out);
  return options;
}

AnalyzeOptions analysis_of_tinymoe(const std::string& out = "out") {
  return analysis_options(checkpoint_of("tinymoe"), out);
}

ExpertProfile profile_of(const AnalyzeOptions& options) {
  const auto analysis = analyze_model(options);
  EXPECT_TRUE(analysis.has_value()) << render(analysis.error());
  return analysis ? analysis->profile : ExpertProfile();
}

void expect_near_each(const std::vector<double>& found, const std::vector<double>& wanted,
                      const char* what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t e = 0; e < found.size(); ++e)
    EXPECT_NEAR(found[e], wanted[e], 1e-5 * std::max(1.0, wanted[e])) << what << " of expert " << e;
}

void expect_same_profile(const ExpertProfile& profile, const ExpertProfile& golden) {
  EXPECT_EQ(profile.categories, golden.categories);
  ASSERT_EQ(profile.layers.size(), golden.layers.size());
  for (size_t i = 0; i < golden.layers.size(); ++i) {
    const LayerProfile &found = profile.layers[i], &wanted = golden.layers[i];
    EXPECT_EQ(found.tokens, wanted.tokens);
    EXPECT_EQ(found.selections, wanted.selections);
    EXPECT_EQ(found.together, wanted.together);
    EXPECT_EQ(found.by_category, wanted.by_category);
    expect_near_each(found.mass, wanted.mass, "mass");
    expect_near_each(found.output_norm, wanted.output_norm, "norm");
    expect_near_each(found.saliency, wanted.saliency, "saliency");
    expect_near_each(found.largest_activation, wanted.largest_activation, "activation");
  }
}

std::string exported_tinymoe(const std::vector<std::string>& flags) {
  std::vector<std::string> words = {
      "export", checkpoint_of("tinymoe"), "--tokens", "1,16", "--quiet",
      "--out",  fresh_folder("export")};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  return words[6];
}

TEST(Analyze, MatchesMeasurementsOfTransformers) {
  AnalyzeOptions options = analysis_of_tinymoe();
  options.text.prompts = "default";
  options.text.window = 256;
  const auto golden = read_expert_profile(source_path("tests/data/tinymoe_profile.json"));
  ASSERT_TRUE(golden.has_value()) << render(golden.error());
  expect_same_profile(profile_of(options), *golden);
}

TEST(Analyze, MeasuresEquallyInExpertGroups) {
  AnalyzeOptions options = analysis_of_tinymoe();
  options.group_bytes = 1;
  expect_same_profile(profile_of(options), profile_of(analysis_of_tinymoe("whole")));
}

TEST(Analyze, SelectionsAndMassSumToTokens) {
  const ExpertProfile profile = profile_of(analysis_of_tinymoe());
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

TEST(Analyze, WritesReproducibleFiles) {
  AnalyzeOptions first = analysis_of_tinymoe(), second = first;
  first.pairs_file = second.pairs_file = true;
  second.folder = fresh_folder("again");
  ASSERT_TRUE(analyze_model(first));
  ASSERT_TRUE(analyze_model(second));
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(first.folder)) {
    ++files;
    if (entry.path().filename() == "analysis.json") continue;  // states the name of the folder
    EXPECT_EQ(read_file(entry.path()), read_file(second.folder / entry.path().filename()))
        << entry.path();
  }
  EXPECT_EQ(files, 13U);
  EXPECT_EQ(read_expert_profile(first.folder).value(), profile_of(second));
}

TEST(Analyze, AnalyzesDocumentsIndependently) {
  AnalyzeOptions both = analysis_of_tinymoe(), one = both;
  both.text = {{analysis_input("a", "def f(x):\n    return x\n"),
                analysis_input("b", "1 + 1 = 2\n2 + 2 = 4")},
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

TEST(Analyze, AcceptsTokenIds) {
  AnalyzeOptions text = analysis_of_tinymoe(), ids = text;
  text.text = {{analysis_input("text", "def f")}, {}, "", 256};
  ids.text = {{}, {analysis_input("ids", "100 101 102 32 102")}, "", 256};
  EXPECT_EQ(profile_of(text).layers, profile_of(ids).layers);
}

TEST(Analyze, MeasuresExportsWithUnrolledExperts) {
  AnalyzeOptions options = analysis_options(exported_tinymoe({"--experts", "unrolled"}));
  options.exported = true;
  expect_same_profile(profile_of(options), profile_of(analysis_of_tinymoe("checkpoint")));
}

TEST(Analyze, MeasuresExportsWithHostRouting) {
  AnalyzeOptions options =
      analysis_options(exported_tinymoe({"--routing", "host", "--max-shard-mb", "moe=0.6"}));
  options.exported = true;
  expect_same_profile(profile_of(options), profile_of(analysis_of_tinymoe("checkpoint")));
}

TEST(Analyze, NotesTheMaskOfAnExport) {
  AnalyzeOptions options = analysis_options(exported_tinymoe({"--expert-mask", "*:0-9"}));
  options.exported = true;
  const auto analysis = analyze_model(options);
  ASSERT_TRUE(analysis.has_value()) << render(analysis.error());
  ASSERT_FALSE(analysis->notes.empty());
  EXPECT_EQ(analysis->notes[0].code, "analyze.masked");
  EXPECT_EQ(analysis->profile.layers[0].selections[12], 0);
}

TEST(Analyze, MeasuresOnlyRoutingOfBankedExperts) {
  AnalyzeOptions options = analysis_options(exported_tinymoe({"--experts", "bank"}));
  options.exported = true;
  const auto analysis = analyze_model(options);
  ASSERT_TRUE(analysis.has_value()) << render(analysis.error());
  ASSERT_EQ(analysis->notes.size(), 1U);
  EXPECT_EQ(analysis->notes[0].code, "analyze.no_outputs");
  const ExpertProfile wanted = profile_of(analysis_of_tinymoe("checkpoint"));
  for (size_t i = 0; i < 4; ++i) {
    const LayerProfile& layer = analysis->profile.layers[i];
    EXPECT_EQ(layer.selections, wanted.layers[i].selections);
    expect_near_each(layer.mass, wanted.layers[i].mass, "mass");
    EXPECT_TRUE(layer.output_norm.empty());
    EXPECT_TRUE(layer.saliency.empty());
    EXPECT_TRUE(layer.largest_activation.empty());
  }
}

// Reads the file back with moec's reader; other tests read it with llama.cpp.
TEST(Analyze, WritesCountsAndSumsToImatrix) {
  AnalyzeOptions options = analysis_of_tinymoe();
  options.imatrix_file = true;
  const ExpertProfile profile = profile_of(options);
  const std::string path = options.folder + "/imatrix.gguf";
  const auto file = read_gguf(path);
  ASSERT_TRUE(file.has_value()) << render(file.error());
  EXPECT_EQ(file->values.get<std::string_view>("general.type").value(), "imatrix");
  EXPECT_EQ(file->values.get<uint32_t>("imatrix.chunk_size").value(), 32U);
  ASSERT_EQ(file->tensors.size(), 4U * 6);
  EXPECT_EQ(file->tensors[1].name, "blk.0.ffn_down_exps.weight.in_sum2");
  EXPECT_EQ(file->tensors[1].dims, (Dims{16, 80}));
  EXPECT_EQ(file->tensors[3].dims, (Dims{16, 128}));
  AnalyzeOptions counts = analysis_of_tinymoe("counts");
  counts.text = {};
  counts.imatrix = path;
  const auto read = analyze_model(counts);
  ASSERT_TRUE(read.has_value()) << render(read.error());
  ASSERT_EQ(read->profile.layers.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(read->profile.layers[i].selections, profile.layers[i].selections);
    EXPECT_EQ(read->profile.layers[i].tokens, profile.layers[i].tokens);
    EXPECT_TRUE(read->profile.layers[i].mass.empty());
  }
  EXPECT_EQ(read_expert_profile(counts.folder).value(), read->profile);
  EXPECT_FALSE(std::filesystem::exists(counts.folder + "/ranking.csv"));
}

TEST(Analyze, SumsSquaresForImatrix) {
  AnalyzeOptions options = analysis_of_tinymoe();
  options.text = {{}, {analysis_input("ids", "100")}, "", 256};
  options.imatrix_file = true;
  const auto analysis = analyze_model(options);
  ASSERT_TRUE(analysis.has_value()) << render(analysis.error());
  const LayerProfile& layer = analysis->profile.layers[0];
  for (size_t e = 0; e < 16; ++e) {
    const std::vector<float>& inner = analysis->sums[0].inner[e];
    EXPECT_EQ(inner.empty(), layer.selections[e] == 0);
    if (inner.empty()) continue;
    const float largest = *std::max_element(inner.begin(), inner.end());
    EXPECT_NEAR(std::sqrt(largest), layer.largest_activation[e], 1e-5);
  }
}

TEST(Analyze, PrintsATableOrJson) {
  const std::string out = fresh_folder("out");
  const std::vector<std::string> words = {
      "analyze", checkpoint_of("tinymoe"), "--prompts", small_suite(), "--out", out, "--quiet"};
  const Outcome table = run_command(words);
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_NE(table.out.find("L03       165"), std::string::npos) << table.out;
  std::vector<std::string> as_json = words;
  as_json.back() = "--json";
  const Outcome json = run_command(as_json);
  EXPECT_EQ(json.exit_code, 0) << json.err;
  EXPECT_NE(json.out.find("\"capture_mass\""), std::string::npos);
  // The file does not contain the folder's name, so its content is equal in every folder.
  std::string printed = json.out;
  const std::string named = "  \"out\": \"" + out + "\",\n";
  ASSERT_NE(printed.find(named), std::string::npos);
  printed.erase(printed.find(named), named.size());
  EXPECT_EQ(printed, read_file(out + "/analysis.json"));
}

std::string analysis_error(const std::vector<std::string>& flags,
                           const std::string& source = checkpoint_of("tinymoe")) {
  std::vector<std::string> words = {"analyze", source, "--out", fresh_folder("out"), "--quiet"};
  words.insert(words.end(), flags.begin(), flags.end());
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  return outcome.err;
}

TEST(Analyze, RejectsBadInput) {
  using testing::HasSubstr;
  EXPECT_THAT(analysis_error({}), HasSubstr("error[analyze.empty]"));
  EXPECT_THAT(analysis_error({"--text", "/missing"}), HasSubstr("error[analyze.text] /missing"));
  EXPECT_THAT(analysis_error({"--prompts", "/missing"}), HasSubstr("error[analyze.text] /missing"));
  EXPECT_THAT(analysis_error({"--tokens", analysis_input("ids", "1 256")}),
              HasSubstr("error[analyze.vocabulary]"));
  EXPECT_THAT(analysis_error({"--tokens", analysis_input("words", "1 x")}),
              HasSubstr("error[analyze.tokens]"));
  EXPECT_THAT(analysis_error({"--prompts", "default"}, checkpoint_of("mixtral_a")),
              HasSubstr("error[analyze.no_tokenizer]"));
  EXPECT_THAT(analysis_error({"--prompts", analysis_input("suite", "{\"category\": \"a\"}\n")}),
              HasSubstr("error[analyze.prompts]"));
  EXPECT_THAT(analysis_error({"--from-imatrix", analysis_input("imatrix", "abc")}),
              HasSubstr("error[analyze.imatrix]"));
  EXPECT_THAT(analysis_error({"--from-imatrix", source_path("tests/data/gguf_blocks.gguf")}),
              HasSubstr("blk.0.ffn_down_exps.weight.counts"));
  EXPECT_THAT(analysis_error({"--from-imatrix", analysis_input("imatrix", "abc"), "--imatrix"}),
              HasSubstr("error[analyze.imatrix_source]"));
  EXPECT_THAT(analysis_error({"--prompts", "default"}, source_path("tests/golden/README.md")),
              HasSubstr("error["));
}

TEST(Analyze, StopsOnRequest) {
  AnalyzeOptions options = analysis_of_tinymoe();
  options.stop = [] { return true; };
  expect_error(analyze_model(options), kAnalyzeInterrupted, "stopped");
}

}  // namespace
}  // namespace moec
