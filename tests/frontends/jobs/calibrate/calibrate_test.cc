#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <span>

#include "backends/files/digest.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "backends/weights/calibration/checkpoint_identity.h"
#include "backends/weights/calibration/sensitivity.h"
#include "backends/weights/views/equal_tensors.h"
#include "frontends/jobs/calibrate/calibrate_model.h"
#include "frontends/jobs/calibrate/calibration_size.h"
#include "frontends/jobs/calibrate/layer_writer.h"
#include "frontends/jobs/calibrate/measure_sensitivity.h"
#include "frontends/sources/open_source.h"
#include "models/shards/needed_tensors.h"
#include "tests/files.h"
#include "tests/frontends/cli/checkpoint_tensors.h"
#include "tests/frontends/cli/command.h"
#include "tests/golden_cases.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

std::string file_of(const std::string& name, const std::string& bytes) {
  const std::string path = fresh_folder(name) + "/" + name;
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string some_text(size_t bytes) {
  const std::string words = "def run(self):\n    return {\"a\": 12 + 7} # the end\n";
  std::string text;
  while (text.size() < bytes) text += words;
  return text.substr(0, bytes);
}

CalibrateOptions tinymoe_options(const std::string& out, size_t bytes = 1000) {
  CalibrateOptions options;
  options.source = checkpoint_of("tinymoe");
  options.texts = {file_of("text", some_text(bytes))};
  options.folder = out;
  options.window = 100;
  return options;
}

std::map<std::string, std::string> bytes_in(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files[entry.path().filename()] = read_file(entry.path());
  return files;
}

std::string code_of(const CalibrateOptions& options) {
  const auto report = calibrate_model(options);
  return report ? "fine" : report.error().front().code;
}

TEST(Calibrate, MeasuresEveryMatrixOfTinymoe) {
  const std::string out = fresh_folder("stats");
  const auto report = calibrate_model(tinymoe_options(out, 1050));
  ASSERT_TRUE(report) << render(report.error());
  EXPECT_EQ(report->unused_tokens, 50);
  const auto stats = CalibrationStats::open(out);
  ASSERT_TRUE(stats) << render(stats.error());
  for (int64_t layer = 0; layer < 4; ++layer) {
    int64_t chosen = 0;
    for (const char* role : {"q", "k", "v", "o", "router"}) {
      EXPECT_EQ(stats->tokens({layer, -1, role}), 1000) << role;
      EXPECT_TRUE(stats->find({layer, -1, role})) << role;
    }
    for (int64_t e = 0; e < 16; ++e) {
      const int64_t tokens = stats->tokens({layer, e, "expert_gate"});
      const auto gate = stats->find({layer, e, "expert_gate"}),
                 up = stats->find({layer, e, "expert_up"});
      const auto down = stats->find({layer, e, "expert_down"});
      ASSERT_TRUE(gate && up && down);
      EXPECT_EQ(gate->tokens, tokens + 4 * 128) << "pooled";
      EXPECT_EQ(gate->sums, up->sums);
      EXPECT_EQ(down->inputs, 80);
      EXPECT_EQ(down->tokens, tokens);
      chosen += tokens;
    }
    EXPECT_EQ(chosen, 2000);
  }
  EXPECT_TRUE(stats->find({-1, -1, "lm_head"}));
  EXPECT_EQ(stats->find({0, -1, "embed"}).error().front().code, "calibrate.no_input");
  EXPECT_EQ(stats->check_checkpoint("other").error().front().code, "calibrate.other_checkpoint");
}

// Returns whether the role is a matrix with token inputs; other roles are vectors and convolutions.
bool is_matrix(const NeededRole& needed) {
  return needed.dims.rank() >= 2 && needed.role != "embed" && needed.role != "sinks" &&
         needed.role != "mixer_decay_grid" && needed.role.find("conv") == std::string::npos &&
         needed.role.find("bias") == std::string::npos;
}

class CalibratedCheckpoints : public testing::TestWithParam<const char*> {};

TEST_P(CalibratedCheckpoints, HaveStatisticsOfEveryMatrix) {
  auto checkpoint = open_source(checkpoint_of(GetParam()), {}, equal_tensors);
  ASSERT_TRUE(checkpoint);
  std::string ids;
  for (int64_t i = 0; i < 24; ++i)
    ids += std::to_string((i * 5 + 3) % checkpoint->config.vocab) + (i % 7 == 6 ? "\n" : ",");
  CalibrateOptions options;
  options.source = checkpoint_of(GetParam());
  options.tokens_file = file_of("ids", ids);
  options.folder = fresh_folder("stats");
  options.window = 8;
  uint64_t stated = 0, all = 0;
  options.start = [&](uint64_t bytes) { stated = bytes; };
  const auto report = calibrate_model(options);
  ASSERT_TRUE(report) << render(report.error());
  for (const CalibratedLayer& layer : report->index.layers)
    for (const CalibratedInput& input : layer.inputs)
      all += triangle_bytes(input, TriangleForm::correlations);
  EXPECT_EQ(stated, all) << "inputs with and without tokens";
  const auto stats = CalibrationStats::open(options.folder);
  ASSERT_TRUE(stats) << render(stats.error());
  for (const NeededRole& needed : needed_roles(checkpoint->config)) {
    if (!is_matrix(needed)) continue;
    const bool all_experts = needed.role.starts_with("experts_");
    const int64_t expert = needed.experts > 0 || all_experts ? 0 : -1;
    const auto* inputs = stats->inputs_of({needed.layer, expert, needed.role});
    EXPECT_NE(inputs, nullptr) << needed.layer << needed.role;
    if (!inputs) continue;
    EXPECT_TRUE(stats->find({needed.layer, expert, needed.role})) << needed.role;
  }
  const char* head = checkpoint->config.head.tied ? "embed" : "lm_head";
  EXPECT_EQ(stats->tokens({-1, -1, head}), 24);
}

INSTANTIATE_TEST_SUITE_P(, CalibratedCheckpoints, testing::ValuesIn(kGoldenCases),
                         [](const auto& one) { return std::string(one.param); });

// With several groups, the projection after the latent reads only partial sums of experts, so its
// inputs are not measured.
TEST(Calibrate, MeasuresLatentInputsOnceInGroups) {
  std::string ids;
  for (int64_t i = 0; i < 24; ++i) ids += std::to_string(i * 5 % 93) + (i % 7 == 6 ? "\n" : ",");
  CalibrateOptions options;
  options.source = checkpoint_of("nemotron_h_c");
  options.tokens_file = file_of("ids", ids);
  options.folder = fresh_folder("stats");
  options.window = 8;
  options.group_bytes = 30'000;
  const auto report = calibrate_model(options);
  ASSERT_TRUE(report) << render(report.error());
  const auto stats = CalibrationStats::open(options.folder);
  ASSERT_TRUE(stats) << render(stats.error());
  EXPECT_EQ(stats->tokens({1, -1, "latent_in"}), 24);
  EXPECT_NE(stats->inputs_of({1, -1, "latent_in"}), nullptr);
  EXPECT_EQ(stats->inputs_of({1, -1, "latent_out"}), nullptr);
  EXPECT_EQ(stats->inputs_of({1, 0, "expert_up"})->inputs, 19);
  size_t named = 0;
  for (const CalibratedLayer& layer : report->index.layers)
    for (const CalibratedInput& input : layer.inputs)
      named += std::count(input.matrices.begin(), input.matrices.end(),
                          CalibratedMatrix{"latent_in", -1});
  EXPECT_EQ(named, 2u) << "once in each of two layers";
}

TEST(Calibrate, MeasuresEquallyInExpertGroups) {
  const std::string whole = fresh_folder("whole"), groups = fresh_folder("groups");
  CalibrateOptions options = tinymoe_options(whole, 500);
  ASSERT_TRUE(calibrate_model(options));
  options.folder = groups;
  options.group_bytes = 1 << 20;
  ASSERT_TRUE(calibrate_model(options));
  const auto a = CalibrationStats::open(whole), b = CalibrationStats::open(groups);
  ASSERT_TRUE(a && b);
  for (int64_t layer = 0; layer < 4; ++layer)
    for (int64_t e = 0; e < 16; ++e) {
      const auto one = a->find({layer, e, "expert_up"}), other = b->find({layer, e, "expert_up"});
      ASSERT_TRUE(one && other);
      EXPECT_EQ(one->tokens, other->tokens);
      for (size_t i = 0; i < one->sums.size(); i += 129)
        EXPECT_NEAR(one->sums[i], other->sums[i], 1e-4F * (1 + one->sums[i]));
    }
}

// 128 inputs at once need 64 KiB; a quarter of 128 KiB suffices for two blocks of 64.
TEST(Calibrate, SumsWideInputsInBlocks) {
  const std::string whole = fresh_folder("whole"), blocks = fresh_folder("blocks");
  CalibrateOptions options = tinymoe_options(whole, 300);
  options.source = fewer_experts();
  ASSERT_TRUE(calibrate_model(options));
  options.folder = blocks;
  options.group_bytes = 128 << 10;
  options.sensitivity = true;
  ASSERT_TRUE(calibrate_model(options));
  const auto a = CalibrationStats::open(whole), b = CalibrationStats::open(blocks);
  ASSERT_TRUE(a && b);
  for (const char* role : {"expert_up", "expert_down", "q"}) {
    const int64_t expert = role[0] == 'e' ? 3 : -1;
    const CalibratedInput* inputs = b->inputs_of({1, expert, role});
    const auto one = a->find({1, expert, role}), other = b->find({1, expert, role});
    ASSERT_TRUE(inputs && one && other) << role;
    const bool wide = inputs->inputs == 128;
    EXPECT_EQ(inputs->together, wide ? 64 : 0) << role;
    EXPECT_EQ(one->tokens, other->tokens);
    for (size_t i = 0, size = static_cast<size_t>(one->inputs); i < size * size; ++i) {
      const bool together = !wide || (i / size < 64) == (i % size < 64);
      const float expected = together ? one->sums[i] : 0;
      // Each value is stored within half a step, relative to the magnitudes of its two inputs.
      const float scale =
          std::sqrt(one->sums[i / size * (size + 1)]) * std::sqrt(one->sums[i % size * (size + 1)]);
      ASSERT_NEAR(other->sums[i], expected, 1e-4F * (1 + std::abs(expected)) + scale / 32767)
          << role << i;
    }
  }
  EXPECT_TRUE(read_sensitivity(blocks));
}

TEST(Calibrate, ResumesAfterAStop) {
  const std::string whole = fresh_folder("whole"), stopped = fresh_folder("stopped");
  ASSERT_TRUE(calibrate_model(tinymoe_options(whole)));
  CalibrateOptions options = tinymoe_options(stopped);
  int windows = 0;
  for (int runs = 0; runs < 20; ++runs) {
    windows = 0;
    options.stop = [&] { return ++windows == 33; };
    const std::string code = code_of(options);
    if (code == "fine") break;
    ASSERT_EQ(code, kCalibrateInterrupted);
    EXPECT_EQ(CalibrationStats::open(stopped).error().front().code, "calibrate.unfinished");
  }
  EXPECT_LT(windows, 33) << "the last run was not stopped";
  EXPECT_EQ(bytes_in(stopped), bytes_in(whole));
}

// Leftovers of killed runs: an unfinished first write, and states that the index does not name.
TEST(Calibrate, ResumesAfterAKill) {
  const std::string whole = fresh_folder("whole"), killed = fresh_folder("killed");
  ASSERT_TRUE(calibrate_model(tinymoe_options(whole, 300)));
  std::ofstream(killed + "/calibration.json.part") << "{";
  CalibrateOptions options = tinymoe_options(killed, 300);
  int windows = 0;
  options.stop = [&] { return ++windows == 5; };
  ASSERT_EQ(code_of(options), kCalibrateInterrupted);
  for (const char* name : {"state0.bin", "state77.bin", "state1.bin.part"})
    std::ofstream(killed + "/" + name) << "left";
  options.stop = nullptr;
  EXPECT_EQ(code_of(options), "fine");
  EXPECT_EQ(bytes_in(killed), bytes_in(whole));
  std::ofstream(killed + "/state3.bin") << "left";
  EXPECT_EQ(code_of(options), "calibrate.out_not_empty");
  EXPECT_EQ(bytes_in(killed), bytes_in(whole));
}

// Tests only every fourteenth byte, because the files have thousands of bytes.
TEST(Calibrate, DetectsAnyChangedByte) {
  const std::string out = fresh_folder("stats");
  CalibrateOptions options = tinymoe_options(out, 300);
  options.sensitivity = true;
  ASSERT_EQ(code_of(options), "fine");
  const std::string index = bytes_in(out).at("calibration.json");
  for (size_t at = 0; at < index.size(); at += 14) {
    std::string damaged = index;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(out + "/calibration.json") << damaged;
    EXPECT_FALSE(CalibrationStats::open(out)) << at;
  }
  std::ofstream(out + "/calibration.json") << index;
  ASSERT_TRUE(CalibrationStats::open(out));
  const std::string measured = bytes_in(out).at("sensitivity.json");
  for (size_t at = 0; at < measured.size(); at += 14) {
    std::string damaged = measured;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    std::ofstream(out + "/sensitivity.json") << damaged;
    EXPECT_FALSE(read_sensitivity(out)) << at;
  }
}

// Version 2 has no digest of the text.
TEST(Calibrate, ReadsOlderVersions) {
  const std::string out = fresh_folder("stats");
  const std::vector<float> sums = {4, 2, 9, -1, 0.5F, 1};
  const auto bytes = std::as_bytes(std::span(sums));
  std::ofstream(out + "/L00.hessians", std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  Digest digest;
  digest.update(bytes);
  CalibrationIndex index{"c", "t", 8, 16, true, TriangleForm::sums, {}, {}};
  index.layers = {{0, "L00.hessians", {{"x", 3, 16, "", 0, digest.hex(), {{"q"}}}}}};
  std::string text = index_text(index);
  for (const int version : {3, 2}) {
    std::ofstream(out + "/calibration.json") << text;
    const auto stats = CalibrationStats::open(out);
    ASSERT_TRUE(stats) << render(stats.error());
    const auto found = stats->find({0, -1, "q"});
    ASSERT_TRUE(found) << render(found.error());
    EXPECT_EQ(found->sums, (std::vector<float>{4, 2, -1, 2, 9, 0.5F, -1, 0.5F, 1})) << version;
    if (version == 2) break;
    text = text.substr(0, text.rfind(",\n \"digest\"")) + "\n}\n";
    text.replace(text.find("\"version\": 3"), 12, "\"version\": 2");
  }
}

TEST(Calibrate, RejectsAnotherFormatInTheFolder) {
  const std::string out = fresh_folder("stats");
  CalibrateOptions options = tinymoe_options(out, 300);
  options.stop = [&] { return fs::exists(out + "/L00.hessians"); };
  ASSERT_EQ(code_of(options), kCalibrateInterrupted);
  auto index = read_calibration_index(out);
  ASSERT_TRUE(index);
  index->triangles = TriangleForm::sums;
  std::ofstream(out + "/calibration.json") << index_text(*index);
  options.stop = nullptr;
  const auto refused = calibrate_model(options);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "calibrate.differs");
  EXPECT_NE(refused.error().front().cause.find("another format"), std::string::npos);
}

TEST(Calibrate, PredictsTheWrittenBytes) {
  for (const uint64_t group_bytes : {uint64_t{1} << 30, uint64_t{128} << 10}) {
    const std::string out = fresh_folder("stats");
    CalibrateOptions options = tinymoe_options(out);
    options.group_bytes = group_bytes;
    uint64_t stated = 0, written = 0;
    options.start = [&](uint64_t bytes) { stated = bytes; };
    const auto report = calibrate_model(options);
    ASSERT_TRUE(report) << render(report.error());
    for (const auto& [name, bytes] : bytes_in(out))
      if (name.ends_with(".hessians")) written += bytes.size();
    EXPECT_EQ(stated, written);
    EXPECT_EQ(report->bytes, written);
    const auto planned = calibration_bytes(options.source, {});
    ASSERT_TRUE(planned);
    EXPECT_GE(*planned, written);
    EXPECT_EQ(*planned == written, group_bytes == CalibrateOptions().group_bytes);
  }
}

TEST(Calibrate, RejectsADiskWithoutRoom) {
  const Status refused = check_room(fresh_folder("stats"), uint64_t{1} << 62);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "calibrate.no_space");
  EXPECT_TRUE(check_room(fresh_folder("stats"), 1));
}

TEST(Calibrate, RejectsResumingWithOtherInputs) {
  const std::string out = fresh_folder("stats");
  CalibrateOptions options = tinymoe_options(out);
  options.stop = [] { return true; };
  ASSERT_EQ(code_of(options), kCalibrateInterrupted);
  options.stop = nullptr;
  CalibrateOptions other = options;
  other.texts = {file_of("other", some_text(900))};
  EXPECT_EQ(code_of(other), "calibrate.differs");
  other = options;
  other.source = checkpoint_of("tinytagger");
  EXPECT_EQ(code_of(other), "calibrate.differs");
  other = options;
  other.window = 50;
  EXPECT_EQ(code_of(other), "calibrate.differs");
  EXPECT_EQ(code_of(options), "fine");
  EXPECT_EQ(code_of(options), "calibrate.out_not_empty");
}

TEST(Calibrate, RejectsUnreadableInput) {
  const std::string out = fresh_folder("stats");
  CalibrateOptions options = tinymoe_options(out);
  auto code_with = [&](auto change) {
    CalibrateOptions other = options;
    change(other);
    return code_of(other);
  };
  EXPECT_EQ(code_with([](auto& o) { o.texts = {"/nowhere"}; }), "calibrate.text");
  EXPECT_EQ(code_with([](auto& o) { o.texts = {}; }), "calibrate.empty");
  EXPECT_EQ(code_with([](auto& o) { o.texts = {file_of("empty", "")}; }), "calibrate.text");
  EXPECT_EQ(code_with([](auto& o) { o.tokens_file = file_of("gaps", " \n"); }), "calibrate.empty");
  EXPECT_EQ(code_with([](auto& o) { o.tokens_file = file_of("words", "1 two"); }),
            "calibrate.tokens");
  EXPECT_EQ(code_with([](auto& o) { o.tokens_file = file_of("large", "1 256"); }),
            "calibrate.vocabulary");
  EXPECT_EQ(code_with([](auto& o) { o.tokens_file = file_of("below", "-1 2"); }),
            "calibrate.vocabulary");
  EXPECT_EQ(code_with([](auto& o) { o.source = checkpoint_of("mixtral_a"); }),
            "calibrate.no_tokenizer");
  EXPECT_EQ(code_with([](auto& o) { o.window = 0; }), "calibrate.window");
  const std::string full = fresh_folder("full");
  std::ofstream(full + "/notes.txt") << "mine";
  EXPECT_EQ(code_with([&](auto& o) { o.folder = full; }), "calibrate.out_not_empty");
  EXPECT_TRUE(fs::is_empty(out));
}

TEST(Calibrate, DetectsDamagedStatistics) {
  const std::string out = fresh_folder("stats");
  ASSERT_TRUE(calibrate_model(tinymoe_options(out, 300)));
  {
    std::fstream file(out + "/L02.hessians", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(1000);
    file.put('x');
  }
  const auto stats = CalibrationStats::open(out);
  ASSERT_TRUE(stats);
  EXPECT_EQ(stats->find({2, -1, "q"}).error().front().code, "calibrate.damaged");
  EXPECT_TRUE(stats->find({3, -1, "q"}));
  EXPECT_EQ(CalibrationStats::open("/nowhere").error().front().code, "calibrate.no_statistics");
  std::ofstream(out + "/calibration.json") << "{\"version\": 2}";
  EXPECT_EQ(CalibrationStats::open(out).error().front().code, "calibrate.malformed");
}

TEST(Calibrate, RejectsDuplicateInputs) {
  const std::string out = fresh_folder("stats");
  ASSERT_TRUE(calibrate_model(tinymoe_options(out, 300)));
  auto index = read_calibration_index(out);
  ASSERT_TRUE(index);
  index->layers.push_back(index->layers.front());
  std::ofstream(out + "/calibration.json") << index_text(*index);
  const auto stats = CalibrationStats::open(out);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().front().code, "calibrate.malformed");
}

// The digest is valid, but no inputs could produce these moments.
TEST(Calibrate, DetectsInvalidMoments) {
  const std::string out = fresh_folder("stats");
  ASSERT_TRUE(calibrate_model(tinymoe_options(out, 300)));
  auto index = read_calibration_index(out);
  ASSERT_TRUE(index);
  CalibratedInput& input = index->layers[1].inputs.front();
  std::string bytes = bytes_in(out)["L01.hessians"];
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data(), &nan, sizeof nan);
  std::ofstream(out + "/L01.hessians", std::ios::binary) << bytes;
  Digest digest;
  digest.update(
      std::as_bytes(std::span(bytes)).first(triangle_bytes(input, TriangleForm::correlations)));
  input.digest = digest.hex();
  std::ofstream(out + "/calibration.json") << index_text(*index);
  const auto stats = CalibrationStats::open(out);
  ASSERT_TRUE(stats);
  const CalibratedMatrix& matrix = input.matrices.front();
  EXPECT_EQ(stats->find({1, matrix.expert, matrix.role}).error().front().code,
            "calibrate.nonfinite");
  index->layers.clear();
  std::ofstream(out + "/calibration.json") << index_text(*index);
  EXPECT_EQ(CalibrationStats::open(out).error().front().code, "calibrate.no_input");
}

TEST(Calibrate, RejectsNonfiniteInputs) {
  auto writer = LayerWriter::create(fresh_folder("stats"), 3, 1 << 20);
  ASSERT_TRUE(writer);
  writer->begin_part({{{.name = "x", .inputs = 2}, "w"}});
  const std::vector<float> rows = {1, 2, std::numeric_limits<float>::infinity(), 3};
  writer->add({"w", 2, rows});
  const Status ended = writer->end_part();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().front().code, "calibrate.nonfinite");
  EXPECT_NE(ended.error().front().cause.find("\"x\" of layer 3"), std::string::npos);
}

std::string hundred_tokens() {
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i * 37 % 96) + "\n";
  return text;
}

TEST(Calibrate, AddsSensitivitiesLater) {
  const std::string out = fresh_folder("stats"), at_once = fresh_folder("at_once");
  CalibrateOptions options = tinymoe_options(out);
  options.source = checkpoint_of("olmoe_a");
  options.texts.clear();
  options.tokens_file = file_of("tokens", hundred_tokens());
  ASSERT_TRUE(calibrate_model(options));
  EXPECT_EQ(read_sensitivity(out).error().front().code, "calibrate.no_sensitivity");
  options.sensitivity = true;
  options.stop = [] { return true; };
  EXPECT_EQ(code_of(options), kCalibrateInterrupted);
  options.stop = nullptr;
  EXPECT_EQ(code_of(options), "fine");
  EXPECT_EQ(code_of(options), "calibrate.out_not_empty");
  options.folder = at_once;
  EXPECT_EQ(code_of(options), "fine");
  EXPECT_EQ(bytes_in(at_once), bytes_in(out));
  const auto measured = read_sensitivity(out);
  ASSERT_TRUE(measured) << render(measured.error());
  EXPECT_EQ(measured->tokens, 100);
  ASSERT_EQ(measured->layers.size(), 2u);
  for (const LayerSensitivity& layer : measured->layers) {
    ASSERT_EQ(layer.roles.size(), 3u);
    for (const RoleSensitivity& role : layer.roles) {
      EXPECT_GT(role.kl, 1e-5) << role.role;
      EXPECT_LT(role.kl, 0.1) << role.role;
    }
    EXPECT_EQ(layer.tensors.size(), 15u);
    for (const TensorErrors& tensor : layer.tensors) {
      EXPECT_EQ(tensor.elements, 48 * 32);
      for (size_t b = 1; b < kMeasuredBits.size(); ++b)
        EXPECT_LT(tensor.errors[b], tensor.errors[b - 1]) << tensor.role << tensor.expert;
    }
  }
  std::ofstream(out + "/calibration.json", std::ios::app) << " ";
  EXPECT_EQ(read_sensitivity(out).error().front().code, "calibrate.damaged");
}

// Repeats runs that stop at their n-th call of `stop` until a run finishes, and returns the number
// of that run's calls.
int calls_of_last_run(CalibrateOptions options, int n) {
  for (int runs = 0; runs < 40; ++runs) {
    int calls = 0;
    options.stop = [&] { return ++calls == n; };
    const std::string code = code_of(options);
    if (code == "fine") return calls;
    EXPECT_EQ(code, kCalibrateInterrupted);
  }
  ADD_FAILURE() << "the runs made no progress";
  return n;
}

TEST(Calibrate, ResumesSensitivitiesAfterAStop) {
  const std::string whole = fresh_folder("whole"), stopped = fresh_folder("stopped");
  CalibrateOptions options = tinymoe_options(whole, 400);
  options.source = checkpoint_of("olmoe_a");
  options.texts.clear();
  options.tokens_file = file_of("tokens", hundred_tokens());
  options.window = 25;
  ASSERT_TRUE(calibrate_model(options));
  options.sensitivity = true;
  uint64_t told = 0, planned = 0;
  options.progress = [&](uint64_t bytes, uint64_t total, const std::string&) {
    told += bytes;
    planned = total;
  };
  int calls = 0;
  options.stop = [&] { return ++calls < 0; };
  ASSERT_TRUE(calibrate_model(options));
  EXPECT_EQ(told, planned);
  fs::copy(whole, stopped);
  fs::remove(stopped + "/sensitivity.json");
  options.folder = stopped;
  told = 0;
  EXPECT_LT(calls_of_last_run(options, calls * 3 / 4), calls);
  EXPECT_GT(told, planned) << "total progress of both runs";
  EXPECT_LT(told, 2 * planned) << "the first run was stopped";
  EXPECT_EQ(bytes_in(stopped), bytes_in(whole));
}

TEST(Calibrate, RestartsSensitivitiesIfBudgetChanges) {
  const std::string out = fresh_folder("stats"), whole = fresh_folder("whole");
  CalibrateOptions options = tinymoe_options(out, 300);
  options.source = checkpoint_of("olmoe_a");
  options.texts.clear();
  options.tokens_file = file_of("tokens", hundred_tokens());
  options.window = 25;
  ASSERT_TRUE(calibrate_model(options));
  fs::copy(out, whole);
  options.sensitivity = true;
  int calls = 0;
  options.stop = [&] { return ++calls == 50; };
  ASSERT_EQ(code_of(options), kCalibrateInterrupted);
  ASSERT_TRUE(fs::exists(out + "/sensitivity1.bin"));
  EXPECT_EQ(read_sensitivity(out).error().front().code, "calibrate.no_sensitivity");
  options.stop = nullptr;
  // The budget suffices only for the hidden states of fewer windows.
  options.group_bytes = 4 * 25 * 7 * 2 * 96 * 2;
  ASSERT_EQ(code_of(options), "fine");
  options.folder = whole;
  ASSERT_EQ(code_of(options), "fine");
  EXPECT_EQ(read_sensitivity(out).value(), read_sensitivity(whole).value());
}

TEST(Calibrate, DetectsADamagedState) {
  CalibrateOptions options = tinymoe_options(fresh_folder("stats"), 300);
  options.source = checkpoint_of("olmoe_a");
  options.texts.clear();
  options.tokens_file = file_of("tokens", hundred_tokens());
  options.window = 25;
  options.sensitivity = true;
  options.stop = [&] { return fs::exists(options.folder + "/sensitivity1.bin"); };
  ASSERT_EQ(code_of(options), kCalibrateInterrupted);
  std::ofstream(options.folder + "/sensitivity1.bin", std::ios::app) << "x";
  options.stop = nullptr;
  EXPECT_EQ(code_of(options), "calibrate.damaged");
  std::string index = read_file(options.folder + "/sensitivity.json");
  index.replace(index.find("\"next_layer\": 1"), 15, "\"next_layer\": 9");
  write_file(options.folder + "/sensitivity.json", index);
  EXPECT_EQ(code_of(options), "calibrate.malformed");
  fs::remove(options.folder + "/sensitivity.json");
  EXPECT_EQ(code_of(options), "fine");
}

TEST(Calibrate, RejectsSensitivitiesWithoutExperts) {
  CalibrateOptions options = tinymoe_options(fresh_folder("stats"), 200);
  options.sensitivity = true;
  auto checkpoint = open_source(options.source, {}, equal_tensors);
  ASSERT_TRUE(checkpoint);
  checkpoint->config.moe.experts = 0;
  const auto weights = WeightReader::open(checkpoint->weights);
  ASSERT_TRUE(weights);
  Plan plan;
  plan.model = checkpoint->config;
  const Status measured = measure_sensitivity({options}, plan, {}, *weights);
  ASSERT_FALSE(measured);
  EXPECT_EQ(measured.error().front().code, "calibrate.no_experts");
}

TEST(Calibrate, IdentifiesCheckpointsByContent) {
  auto identity = [](const std::string& folder) {
    auto checkpoint = open_source(folder, {}, equal_tensors);
    EXPECT_TRUE(checkpoint);
    return *checkpoint_identity(*source_config_text(folder), checkpoint->weights);
  };
  const std::string original = checkpoint_of("tinymoe"), copy = fresh_folder("copy");
  for (const char* name : {"config.json", "model.safetensors"})
    fs::copy_file(original + "/" + name, copy + "/" + name);
  EXPECT_EQ(identity(copy), identity(original));
  {
    std::fstream file(copy + "/model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-2, std::ios::end);
    file.put('x');
  }
  EXPECT_NE(identity(copy), identity(original));
}

TEST(Calibrate, PrintsAJsonReport) {
  const std::string out = fresh_folder("stats");
  const std::string text = file_of("text", some_text(700)), more = file_of("more", some_text(300));
  const Outcome outcome = run_command({"calibrate", "--text", text, more, checkpoint_of("tinymoe"),
                                       "--out", out, "--window", "100", "--json"});
  EXPECT_EQ(outcome.exit_code, kExitFine) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("\"tokens\": 1000"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("\"never_chosen\""), std::string::npos);
  const Outcome again = run_command({"calibrate", checkpoint_of("tinymoe"), "--text", text, "--out",
                                     fresh_folder("again"), "--group-memory", "512KiB"});
  EXPECT_EQ(again.exit_code, kExitFine) << again.err;
  EXPECT_NE(again.out.find("never chosen"), std::string::npos);
  EXPECT_EQ(run_command({"calibrate", checkpoint_of("tinymoe"), "--out", out}).exit_code,
            kExitBadInput);
}

}  // namespace
}  // namespace moec
