// Exports with calibrated codes: slices, memory, experts with few tokens, and bit widths chosen by
// sensitivity.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/calibration/sensitivity.h"
#include "frontends/compile/auto_bits.h"
#include "frontends/jobs/calibrate/calibrate_model.h"
#include "tests/frontends/cli/checkpoint_tensors.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;
using testing::HasSubstr;

std::string text_of_digits(size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) text += std::to_string(i * 37) + " plus ";
  return text.substr(0, bytes);
}

void calibrate(const std::string& source, const std::string& content, const std::string& folder,
               bool sensitivity = false) {
  const std::string text = fresh_folder("text") + "/text";
  write_file(text, content);
  CalibrateOptions options;
  options.source = source;
  options.texts = {text};
  options.folder = folder;
  options.window = 100;
  options.sensitivity = sensitivity;
  const auto report = calibrate_model(options);
  EXPECT_TRUE(report) << render(report.error());
}

// Statistics of tinymoe, cached per text.
std::string stats_of(const std::string& content) {
  static std::map<std::string, std::string> made;
  std::string& folder = made[content];
  if (!folder.empty()) return folder;
  folder = fresh_folder("stats_" + std::to_string(made.size()));
  calibrate(checkpoint_of("tinymoe"), content, folder);
  return folder;
}

// Statistics of a text from tinymoe's training data, so only the text's length limits their weight.
std::string known_stats() {
  return stats_of(read_file(source_path("tests/data/tinymoe_calibration.bin")).substr(0, 600));
}

Outcome export_to(const std::string& out, const std::string& source, const Words& more) {
  Words words = {"export", source, "-o", out, "--context", "32"};
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

Outcome export_tinymoe(const std::string& out, const Words& more) {
  return export_to(out, checkpoint_of("tinymoe"), more);
}

TEST(CalibratedExport, ReadsTheMomentsOfASlice) {
  const auto stats = CalibrationStats::open(known_stats());
  ASSERT_TRUE(stats);
  const auto whole = stats->find({1, 3, "expert_down"}),
             slice = stats->find({1, 3, "expert_down"}, {30, 20});
  ASSERT_TRUE(whole && slice);
  EXPECT_EQ(slice->inputs, 20);
  EXPECT_EQ(slice->tokens, whole->tokens);
  for (size_t i = 0; i < 20; ++i)
    for (size_t j = 0; j < 20; ++j)
      EXPECT_EQ(slice->sums[i * 20 + j], whole->sums[(30 + i) * 80 + 30 + j]);
  EXPECT_EQ(stats->find({1, 3, "expert_down"}, {70, 20}).error().front().code,
            "calibrate.hessian_size");
}

TEST(CalibratedExport, AcceptsSlicedExperts) {
  const std::string out = fresh_folder("out");
  const Words flags = {"--weights", "experts=int4", "--max-shard-mb", "moe=0.012"};
  Words calibrated = flags;
  calibrated.insert(calibrated.end(), {"--calibration", known_stats()});
  expect_fine(export_tinymoe(out + "/nearest", flags));
  expect_fine(export_tinymoe(out + "/calibrated", calibrated));
  expect_fine(run_command({"check", out + "/calibrated"}));
  const json manifest = read_json(out + "/calibrated/manifest.json");
  int slices = 0;
  for (const json& shard : manifest.at("shards")) {
    if (shard.value("slices", 1) == 1 || shard.at("kind") != "experts") continue;
    ++slices;
    const std::string data = "/" + shard.at("data")[0].at("path").get<std::string>();
    EXPECT_NE(read_file(out + "/calibrated" + data), read_file(out + "/nearest" + data)) << data;
  }
  EXPECT_GT(slices, 16);
}

// The memory of an export without calibration depends on the build. The encoders of 32 jobs need
// about 20 MiB more.
TEST(CalibratedExport, CountsEncoderMemoryPerJob) {
  const std::string out = fresh_folder("out") + "/out";
  const auto with_memory = [](int mebibytes) {
    return Words{
        "--weights", "experts=int4", "--memory", std::to_string(mebibytes) + "MiB", "--jobs", "32"};
  };
  int fewest = 64;
  while (fewest < 1024 &&
         export_tinymoe(fresh_folder("plain"), with_memory(fewest)).exit_code != kExitFine)
    fewest += 4;
  Words calibrated = with_memory(fewest);
  calibrated.insert(calibrated.end(), {"--calibration", known_stats()});
  const Outcome refused = export_tinymoe(out, calibrated);
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("encode.over_budget"));
  EXPECT_THAT(refused.err, HasSubstr("model.layers.0.mlp.experts.0."))
      << "expected the name of a weight";
  EXPECT_THAT(refused.err, HasSubstr("needs 1 MiB"));
  EXPECT_FALSE(fs::exists(out)) << "nothing is written";
}

TEST(CalibratedExport, EncodesWideMatricesInBlocks) {
  const std::string out = fresh_folder("out");
  const auto with = [](Words more) {
    const Words all = {"--weights", "experts=int4", "--calibration", known_stats()};
    more.insert(more.begin(), all.begin(), all.end());
    return more;
  };
  expect_fine(export_tinymoe(out + "/whole", with({})));
  const Outcome blocks = export_tinymoe(out + "/blocks", with({"--calibration-inputs", "64"}));
  expect_fine(blocks);
  EXPECT_THAT(blocks.err + blocks.out, HasSubstr("calibrate.blocks"));
  EXPECT_THAT(blocks.err + blocks.out, HasSubstr("80 in 2")) << "down has 80 inputs";
  EXPECT_THAT(blocks.err + blocks.out, HasSubstr("in 4 shards: L00.moe, L01.moe"));
  expect_fine(export_tinymoe(out + "/jobs", with({"--calibration-inputs", "64", "-j", "3"})));
  const std::string data = "/moe/L00.data";
  EXPECT_NE(read_file(out + "/blocks" + data), read_file(out + "/whole" + data));
  EXPECT_EQ(read_file(out + "/blocks" + data), read_file(out + "/jobs" + data));
  expect_fine(run_command({"check", out + "/blocks"}));
}

TEST(CalibratedExport, ReadsTheMomentsOfInputBlocks) {
  const auto stats = CalibrationStats::open(known_stats());
  ASSERT_TRUE(stats);
  const std::vector<InputRange> ranges = {{0, 27}, {27, 53}};
  const auto blocks = stats->find({2, 1, "expert_down"}, ranges);
  ASSERT_TRUE(blocks);
  ASSERT_EQ(blocks->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const auto alone = stats->find({2, 1, "expert_down"}, ranges[i]);
    ASSERT_TRUE(alone);
    EXPECT_EQ((*blocks)[i].sums, alone->sums);
    EXPECT_EQ((*blocks)[i].tokens, alone->tokens);
  }
}

TEST(CalibratedExport, NamesExpertsWithFewTokens) {
  const std::string out = fresh_folder("out");
  const auto stats = CalibrationStats::open(stats_of(text_of_digits(100)));
  ASSERT_TRUE(stats);
  const Outcome exported = export_tinymoe(
      out, {"--weights", "experts=int4", "--calibration", stats_of(text_of_digits(100))});
  expect_fine(exported);
  const json few = read_json(out + "/report.json").at("few_tokens");
  EXPECT_EQ(few.size(), 64u) << "100 tokens are too few for 16 experts in 4 layers";
  bool never = false;
  for (const json& one : few) {
    const auto layer = one.at("layer").get<int64_t>(), expert = one.at("expert").get<int64_t>();
    const auto tokens = one.at("tokens").get<int64_t>();
    EXPECT_EQ(tokens, stats->tokens({layer, expert, "expert_gate"}));
    const auto borrowed = static_cast<double>(stats->borrowed({layer, expert, "expert_gate"}));
    EXPECT_DOUBLE_EQ(one.at("weight").get<double>(),
                     borrowed / (borrowed + static_cast<double>(tokens)));
    never = never || tokens == 0;
  }
  EXPECT_TRUE(never);
  EXPECT_THAT(exported.err + exported.out, HasSubstr("calibrate.few_tokens"));
  EXPECT_THAT(exported.err + exported.out, HasSubstr("no token of the calibration chose"));
}

TEST(CalibratedExport, ReportsTheTextsNarrowness) {
  const std::string out = fresh_folder("out");
  const std::string digits = stats_of(text_of_digits(600));
  const auto stats = CalibrationStats::open(digits);
  ASSERT_TRUE(stats);
  const Outcome exported =
      export_tinymoe(out, {"--weights", "experts=int4", "--calibration", digits});
  expect_fine(exported);
  const json text = read_json(out + "/report.json").at("calibration_text");
  EXPECT_DOUBLE_EQ(text.at("narrowness").get<double>(), stats->narrowness());
  EXPECT_EQ(stats->find({0, 0, "expert_gate"})->narrowness, stats->narrowness());
  ASSERT_EQ(text.at("loads").size(), 4u);
  double sum = 0;
  for (const json& layer : text.at("loads")) sum += layer.at("variation").get<double>();
  EXPECT_DOUBLE_EQ(sum / 4, stats->narrowness());
  EXPECT_GT(stats->narrowness(), 1) << "the text contains only numbers and one word";
  EXPECT_THAT(exported.err + exported.out, HasSubstr("calibrate.narrow_text"));
  EXPECT_THAT(exported.err + exported.out, HasSubstr("count for at most 0 %"));
  const std::string nearest = fresh_folder("nearest");
  expect_fine(export_tinymoe(nearest, {"--weights", "experts=int4"}));
  for (const std::string data : {"/moe/L00.data", "/moe/L03.data"})
    EXPECT_EQ(read_file(out + data), read_file(nearest + data)) << "nothing is believed";
}

// Each form combines experts in one weight, which has no single calibrated input.
TEST(CalibratedExport, RejectsCombinedExperts) {
  const std::string out = fresh_folder("out") + "/out";
  for (const Words& form : {Words{"--experts", "bank"}, Words{"--routing", "op"}}) {
    const Outcome refused = export_tinymoe(
        out, {"--weights", "int8", "--calibration", known_stats(), form[0], form[1]});
    EXPECT_EQ(refused.exit_code, kExitBadInput);
    EXPECT_THAT(refused.err, HasSubstr("calibrate.no_use"));
    EXPECT_THAT(refused.err, HasSubstr("omit " + form[0]));
    EXPECT_FALSE(fs::exists(out + "/manifest.json"));
  }
}

TEST(CalibratedExport, RejectsACalibrationOfAnotherCheckpoint) {
  const std::string out = fresh_folder("out") + "/out";
  const Outcome refused = run_command({"export", checkpoint_of("mixtral_a"), "-o", out, "--quiet",
                                       "--weights", "int8", "--calibration", known_stats()});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("calibrate.other_checkpoint"));
  EXPECT_THAT(refused.err, HasSubstr("next: run moec calibrate with this checkpoint"));
  EXPECT_FALSE(fs::exists(out));
}

TEST(AutoBits, AreChosenByErrorAndSensitivity) {
  LayerSensitivity sensitive{0, {{"expert_up", 1.0}}, {}}, other{1, {{"expert_up", 0.001}}, {}};
  const std::array<double, 4> errors = {16, 4, 1, 0.1};
  for (int64_t e = 0; e < 2; ++e) {
    sensitive.tensors.push_back({"expert_up", e, 100, errors});
    other.tensors.push_back({"expert_up", e, 100, errors});
  }
  const Sensitivity sensitivity{"", 10, {sensitive, other}};
  EXPECT_DOUBLE_EQ(expected_kl(sensitive, sensitive.tensors[0], 4), 1.0 / 8);
  EXPECT_DOUBLE_EQ(expected_kl(sensitive, sensitive.tensors[0], 8), 0.1 / 16 / 8);
  const Target ane = find_target("ane").value();
  WeightPolicy policy = parse_weight_policy("experts=auto:3", ane.four_bits).value();
  ASSERT_TRUE(choose_forms(ane, sensitivity, policy));
  EXPECT_EQ(policy.chosen.size(), 4u);
  for (int64_t e = 0; e < 2; ++e) {
    EXPECT_EQ(to_string(policy.form_of(WeightGroup::experts, {0, e, "expert_up"})), "int4-lut:g16");
    EXPECT_EQ(to_string(policy.form_of(WeightGroup::experts, {1, e, "expert_up"})), "int2-lut:g16");
  }
  EXPECT_EQ(to_string(policy), "experts=auto:3");
}

TEST(AutoBits, UseOnlyFormsOfTheTarget) {
  LayerSensitivity layer{0, {{"expert_up", 1.0}}, {}};
  for (int64_t e = 0; e < 4; ++e)
    layer.tensors.push_back({"expert_up", e, 10, {16.0 + double(e), 4, 1, 0.1}});
  const Sensitivity sensitivity{"", 10, {layer}};
  Target onnx = find_target("onnx").value();
  WeightPolicy policy = parse_weight_policy("auto:6", onnx.four_bits).value();
  onnx.projection = ProjectionForm::matmul;
  ASSERT_TRUE(choose_forms(onnx, sensitivity, policy));
  std::map<std::string, int> forms;
  for (const auto& [tensor, form] : policy.chosen) ++forms[to_string(form)];
  EXPECT_EQ(forms, (std::map<std::string, int>{{"int4:32", 2}, {"int8", 2}}));
  EXPECT_EQ(to_string(policy.form_of(WeightGroup::attn, 0)), "int8");
  policy = parse_weight_policy("auto:3", onnx.four_bits).value();
  const Status few = choose_forms(onnx, sensitivity, policy);
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().front().code, "weights.auto");
  EXPECT_THAT(few.error().front().cause, HasSubstr("4 to 8 bits"));
  onnx.weights.clear();
  const Status none = choose_forms(onnx, sensitivity, policy);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().front().code, "weights.auto");
  EXPECT_THAT(none.error().front().cause, HasSubstr("none of the candidate"));
}

TEST(AutoBits, KeepTheRequestedMeanBits) {
  const std::string source = fewer_experts(), out = fresh_folder("out"),
                    stats = fresh_folder("stats");
  calibrate(source, text_of_digits(100), stats, true);
  const Words flags = {"--target", "ane", "--weights", "experts=auto:3", "--calibration", stats};
  expect_fine(export_to(out, source, flags));
  expect_fine(run_command({"check", out, "--min-coverage", "0"}));
  const json report = read_json(out + "/report.json");
  EXPECT_EQ(report.at("weights"), "experts=auto:3");
  ASSERT_EQ(report.at("chosen").size(), 2u * 4 * 3);
  double bits = 0;
  std::map<std::string, int> forms;
  for (const json& one : report.at("chosen")) {
    const std::string form = one.at("form").get<std::string>();
    bits += form[3] - '0';
    ++forms[form];
  }
  EXPECT_LE(bits / 24, 3);
  EXPECT_GT(bits / 24, 2.95);
  EXPECT_GT(forms.size(), 1u);
  Words plan = {"plan", source, "--json", "--context", "32"};
  plan.insert(plan.end(), flags.begin(), flags.end());
  const json planned = json::parse(run_command(plan).out);
  const json manifest = read_json(out + "/manifest.json");
  int64_t bytes = 0;
  for (const json& shard : manifest.at("shards")) bytes += shard.at("weight_bytes").get<int64_t>();
  EXPECT_EQ(bytes, planned["memory"]["trunk_bytes"].get<int64_t>() +
                       planned["memory"]["expert_bytes"].get<int64_t>());
}

TEST(AutoBits, RequireSensitivities) {
  const std::string out = fresh_folder("out") + "/out";
  const Outcome none = export_tinymoe(out, {"--target", "ane", "--weights", "auto:3"});
  EXPECT_EQ(none.exit_code, kExitBadInput);
  EXPECT_THAT(none.err, HasSubstr("weights.auto"));
  EXPECT_THAT(none.err, HasSubstr("--sensitivity"));
  const Outcome without = export_tinymoe(
      out, {"--target", "ane", "--weights", "auto:3", "--calibration", known_stats()});
  EXPECT_EQ(without.exit_code, kExitBadInput);
  EXPECT_THAT(without.err, HasSubstr("calibrate.no_sensitivity"));
  const Words other = {"--target",  "onnx",           "--form",        "matmul",
                       "--weights", "experts=auto:6", "--calibration", known_stats()};
  Words plan = {"plan", checkpoint_of("olmoe_a")};
  plan.insert(plan.end(), other.begin(), other.end());
  const Outcome planned = run_command(plan);
  EXPECT_EQ(planned.exit_code, kExitBadInput);
  EXPECT_THAT(planned.err, HasSubstr("calibrate.other_checkpoint"));
  for (const char* wrong : {"auto", "auto:", "auto:x", "auto:0", "auto:9", "attn=auto:4"}) {
    const Outcome outcome = export_tinymoe(out, {"--target", "ane", "--weights", wrong});
    EXPECT_EQ(outcome.exit_code, kExitBadInput) << wrong;
    EXPECT_THAT(outcome.err, HasSubstr("weights.auto")) << wrong;
  }
  EXPECT_FALSE(fs::exists(out));
}

}  // namespace
}  // namespace moec
