// What is special about exports that label tokens.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/runtime/tag_text.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

const char* const kTagger = "openai_privacy_filter_a";

TEST(Tagging, TheManifestTellsTaskAndLabelsAndNoCache) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case(kTagger, out, {"--tokens", "5,16"}));
  const json manifest = read_json(out + "/manifest.json");
  EXPECT_EQ(manifest["model"]["task"], "token_classification");
  EXPECT_EQ(manifest["build"]["cache"], "none");
  EXPECT_EQ(manifest["caches"], json::array());
  EXPECT_EQ(manifest["logits"]["vocab"], 9);
  EXPECT_EQ(manifest["tagging"]["labels"][5]["name"], "B-secret");
  EXPECT_EQ(manifest["tagging"]["end_to_start"], 0);
  const json& mask = manifest["schedule"][0]["inputs"][3];
  EXPECT_EQ(mask["port"], "attn_mask");
  EXPECT_EQ(mask["window"], 4);
  EXPECT_EQ(mask["ahead"], 3);
  EXPECT_THAT(run_command({"inspect", out}).out,
              HasSubstr("labels of tokens: O, B-private_person"));
  EXPECT_THAT(run_command({"inspect", checkpoint_of(kTagger)}).out,
              HasSubstr("labels of tokens: O"));
}

TEST(Tagging, TheCalibrationFileIsReadIntoTheManifest) {
  const std::string copy = fresh_folder("copy"), out = fresh_folder("out");
  std::filesystem::copy(checkpoint_of(kTagger), copy);
  json biases = {{"transition_bias_background_stay", 0.5},
                 {"transition_bias_background_to_start", -1},
                 {"transition_bias_inside_to_continue", 0.25},
                 {"transition_bias_inside_to_end", 2},
                 {"transition_bias_end_to_background", -0.125}};
  const auto write = [&] {
    const json whole = {{"operating_points", {{"default", {{"biases", biases}}}}}};
    std::ofstream(copy + "/viterbi_calibration.json") << whole.dump();
  };
  const Words words = {"export", copy, "--out", out, "--quiet"};
  write();
  EXPECT_THAT(run_command(words).err, HasSubstr("calibration.malformed"));
  biases["transition_bias_end_to_start"] = 3;
  write();
  expect_fine(run_command(words));
  const json tagging = read_json(out + "/manifest.json")["tagging"];
  EXPECT_EQ(tagging["stay_outside"], 0.5);
  EXPECT_EQ(tagging["outside_to_start"], -1);
  EXPECT_EQ(tagging["inside_to_inside"], 0.25);
  EXPECT_EQ(tagging["inside_to_end"], 2);
  EXPECT_EQ(tagging["end_to_outside"], -0.125);
  EXPECT_EQ(tagging["end_to_start"], 3);
  biases["transition_bias_end_to_end"] = 0;
  write();
  EXPECT_THAT(run_command({"export", copy, "--out", out, "--force"}).err,
              HasSubstr("transition_bias_end_to_end\" is unknown"));
}

TEST(Tagging, FlagsThatDoNotApplyAreErrors) {
  const std::string out = fresh_folder("out");
  for (const char* command : {"export", "plan"}) {
    Words words = {command, checkpoint_of(kTagger), "--kv", "io"};
    if (std::string(command) == "export") words.insert(words.end(), {"--out", out});
    EXPECT_THAT(run_command(words).err, HasSubstr("--kv io: openai_privacy_filter keeps no cache"));
  }
  EXPECT_THAT(run_command({"plan", checkpoint_of(kTagger), "--mla", "latent"}).err,
              HasSubstr("--mla latent: openai_privacy_filter has no latent attention"));
  expect_fine(export_case(kTagger, out, {"--tokens", "4"}));
  const auto run = [&](Words more) {
    more.insert(more.begin(), {"run", out, "--prompt-tokens", "1,2,3,4"});
    return run_command(more);
  };
  expect_fine(run({}));
  EXPECT_THAT(run({"--temperature", "1"}).err, HasSubstr("--temperature is for models that write"));
  EXPECT_THAT(run({"--redact"}).err, HasSubstr("run.no_text"));
  EXPECT_THAT(run_command({"run", out, "--prompt", "a"}).err, HasSubstr("run.no_tokenizer"));
  EXPECT_THAT(run_command({"run", out, "--prompt-tokens", "1,2,3,4,5"}).err,
              HasSubstr("export with --tokens 5"));
  EXPECT_THAT(validate_case(kTagger, out).err, HasSubstr("session.width"));
}

// "é" is two bytes, "🙂" four.
TEST(Tagging, SpansTakeWholeCharacters) {
  const std::string text = "é🙂a";
  const auto widened = [&](std::vector<TextSpan> spans) {
    widen_to_characters(text, spans);
    std::vector<std::pair<int64_t, int64_t>> places;
    for (const TextSpan& span : spans) places.emplace_back(span.begin, span.end);
    return places;
  };
  using Places = std::vector<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(widened({{0, 2, "a", 1}, {2, 6, "b", 1}}), (Places{{0, 2}, {2, 6}}));
  EXPECT_EQ(widened({{1, 2, "a", 1}, {5, 7, "b", 1}}), (Places{{0, 2}, {2, 7}}));
  EXPECT_EQ(widened({{0, 1, "a", 1}, {1, 3, "b", 1}}), (Places{{0, 2}, {2, 6}}));
  EXPECT_EQ(widened({{2, 3, "a", 1}, {4, 5, "b", 1}, {6, 7, "c", 1}}), (Places{{2, 6}, {6, 7}}));
  std::vector<TextSpan> cut = {{3, 4, "name", 1}};
  widen_to_characters(text, cut);
  EXPECT_EQ(redact(text, cut), "é<NAME>a");
}

}  // namespace
}  // namespace moec
