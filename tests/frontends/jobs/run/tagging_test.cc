// Exports that label tokens.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "backends/runtime/text/tag_text.h"
#include "tests/frontends/cli/checkpoint_tensors.h"
#include "tests/frontends/cli/manifest_forms.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const char* const kTagger = "openai_privacy_filter_a";

TEST(Tagging, WritesTaskAndLabelsWithoutCache) {
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
  EXPECT_THAT(run_command({"inspect", out}).out, HasSubstr("token labels: O, B-private_person"));
  EXPECT_THAT(run_command({"inspect", checkpoint_of(kTagger)}).out, HasSubstr("token labels: O"));
}

TEST(Tagging, RecordsCalibrationInTheManifest) {
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

TEST(Tagging, RejectsInapplicableFlags) {
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

// tinytagger with a subset of its labels: the head rows of the given ids, with new label names.
class Relabelled {
 public:
  Relabelled(const std::vector<int>& ids, const std::vector<std::string>& names)
      : copy_("tinytagger") {
    DiskTensors tensors = read_tensors(copy_);
    for (const char* name : {"score.weight", "score.bias"}) {
      DiskTensor& tensor = tensors.at(name);
      const size_t row = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
      std::string bytes;
      for (const int id : ids) bytes += tensor.bytes.substr(static_cast<size_t>(id) * row, row);
      tensor.bytes = bytes;
      tensor.shape[0] = std::ssize(ids);
    }
    write_tensors(copy_.folder(), tensors);
    copy_.edit_config([&](auto& config) {
      config["id2label"] = json::object();
      config.erase("label2id");
      for (size_t i = 0; i < names.size(); ++i) config["id2label"][std::to_string(i)] = names[i];
    });
  }

  Outcome exported(const std::string& out) const {
    return run_command({"export", copy_.folder(), "--out", out, "--quiet", "--tokens", "96",
                        "--context", "96", "--force"});
  }

 private:
  CheckpointCopy copy_;
};

// In tinytagger, 13 to 16 are B, I, E and S of private_person, and 17 to 20 those of private_phone.
const char* const kLetter = "Call Ms. Nora Lindqvist at +49 171 5550123.";

// Without the rows of E labels, the model is less certain where spans end.
void expect_redacted(const std::string& out) {
  const Outcome outcome = run_command({"run", out, "--redact", "--prompt", kLetter});
  expect_fine(outcome);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("<PERSON>"), HasSubstr(" at <PHONE>"),
                                 Not(HasSubstr("Nora")), Not(HasSubstr("555"))));
}

TEST(Tagging, RedactsWithABioTagger) {
  const std::string out = fresh_folder("out");
  const Relabelled tagger({0, 13, 14, 17, 18}, {"O", "B-person", "I-person", "B-phone", "I-phone"});
  expect_fine(tagger.exported(out));
  expect_redacted(out);
}

TEST(Tagging, RedactsWithAnIoTagger) {
  const std::string out = fresh_folder("out");
  const Relabelled tagger({0, 14, 18}, {"O", "I-person", "I-phone"});
  expect_fine(tagger.exported(out));
  expect_redacted(out);
}

TEST(Tagging, RejectsUnknownLabels) {
  const std::string out = fresh_folder("out");
  const Outcome refused = Relabelled({0, 14, 18}, {"O", "PERSON", "PHONE"}).exported(out);
  EXPECT_EQ(refused.exit_code, kExitBadInput) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("error[tagging.labels]"));
  EXPECT_THAT(refused.err, HasSubstr("config.json: the label \"PERSON\" does not mark spans"));
  EXPECT_FALSE(std::filesystem::exists(out + "/manifest.json"));
  expect_fine(Relabelled({0, 14, 18}, {"O", "I-person", "I-phone"}).exported(out));
  auto manifest = read_manifest(out);
  ASSERT_TRUE(manifest);
  manifest->tagging->labels[1].name = "PERSON";
  write_both_forms(*manifest, out);
  const Outcome run = run_command({"run", out, "--redact", "--prompt", kLetter});
  EXPECT_EQ(run.exit_code, kExitBadInput);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("error[tagging.labels]"));
}

TEST(Tagging, RejectsNonfiniteScores) {
  const std::string out = fresh_folder("out");
  const CheckpointCopy copy("tinytagger");
  DiskTensors tensors = read_tensors(copy);
  auto& weight = tensors.at("score.weight").bytes;
  for (size_t i = 0; i + 1 < weight.size(); i += 2) {
    uint16_t bits = 0;
    std::memcpy(&bits, weight.data() + i, sizeof bits);
    bits = bf16_from_f32(f32_from_bf16(bits) * 16384);
    std::memcpy(weight.data() + i, &bits, sizeof bits);
  }
  write_tensors(copy.folder(), tensors);
  expect_fine(run_command(
      {"export", copy.folder(), "--out", out, "--quiet", "--tokens", "96", "--context", "96"}));
  const Words words = {"run", out, "--redact", "--prompt", kLetter, "--precision"};
  const auto run = [&](const char* precision) {
    Words all = words;
    all.emplace_back(precision);
    return run_command(all);
  };
  expect_fine(run("f32"));
  const Outcome refused = run("f16");
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.err, HasSubstr("run.not_judged"));
}

TEST(Tagging, RejectsUnlabelledBytes) {
  EXPECT_TRUE(check_judged("abc", {{}, 3, 1}));
  const Status refused = check_judged("abcd", {{}, 3, 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error()[0].code, "run.not_judged");
}

// "é" has two bytes, "🙂" four.
TEST(Tagging, WidensSpansToWholeCharacters) {
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
