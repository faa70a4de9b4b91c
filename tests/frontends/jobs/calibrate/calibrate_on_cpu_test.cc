// Calibration with the kernels of the engine `cpu`.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_engine.h"
#include "backends/weights/calibration/calibration_stats.h"
#include "frontends/jobs/calibrate/calibrate_model.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;

std::string ids_file() {
  std::string ids;
  for (int i = 0; i < 96; ++i) ids += std::to_string(i * i * 7 % 61) + " ";
  const std::string path = fresh_folder("ids") + "/ids";
  write_file(path, ids);
  return path;
}

// Writes the statistics of 96 tokens. `products` may be null.
std::string calibrated(const std::string& golden, const std::string& name,
                       std::shared_ptr<const Products> products, bool sensitivity = false) {
  CalibrateOptions options;
  options.source = checkpoint_of(golden);
  options.tokens_file = ids_file();
  options.folder = fresh_folder(golden + "." + name);
  options.window = 32;
  options.sensitivity = sensitivity;
  options.products = std::move(products);
  const auto report = calibrate_model(options);
  EXPECT_TRUE(report) << render(report.error());
  return options.folder;
}

TEST(CalibrateOnCpu, KeepsBytesForAnyThreads) {
  const auto one = all_bytes(calibrated("qwen3_moe_a", "one", cpu_products(1), true));
  EXPECT_EQ(all_bytes(calibrated("qwen3_moe_a", "three", cpu_products(3), true)), one);
}

// Compares the moments of all inputs. Values of the engines differ by up to 1e-5, which squares
// double. A reordered sum can change the choice of an expert only for a near tie, which these texts
// do not have.
void expect_close(const std::string& golden) {
  const auto reference = CalibrationStats::open(calibrated(golden, "reference", nullptr)).value();
  const auto cpu = CalibrationStats::open(calibrated(golden, "cpu", cpu_products(2))).value();
  int64_t compared = 0;
  for (int64_t layer = 0; layer < 2; ++layer)
    for (const char* role :
         {"q", "k", "v", "o", "router", "expert_gate", "expert_up", "expert_down"})
      for (int64_t expert = -1; expert < 4; ++expert) {
        const auto a = reference.find({layer, expert, role}), b = cpu.find({layer, expert, role});
        ASSERT_EQ(a.has_value(), b.has_value()) << role;
        if (!a) continue;
        ASSERT_EQ(a->tokens, b->tokens) << role;
        float most = 0, apart = 0;
        for (size_t i = 0; i < a->sums.size(); ++i) {
          most = std::max(most, std::fabs(a->sums[i]));
          apart = std::max(apart, std::fabs(a->sums[i] - b->sums[i]));
        }
        EXPECT_LE(apart, 4e-5F * most) << golden << " L" << layer << " " << role << " " << expert;
        ++compared;
      }
  EXPECT_GE(compared, 10) << golden;
}

TEST(CalibrateOnCpu, MeasuresAsTheReference) {
  for (const char* golden : {"tinymoe", "qwen3_moe_a", "gpt_oss_a", "mixtral_a"})
    expect_close(golden);
}

TEST(CalibrateOnCpu, AcceptsThreads) {
  const std::string ids = ids_file();
  const auto run = [&](const Words& flags) {
    Words words = {"calibrate", checkpoint_of("tinymoe"), "--tokens", ids, "--window", "32",
                   "--out",     fresh_folder("out")};
    words.insert(words.end(), flags.begin(), flags.end());
    return run_command(words);
  };
  expect_fine(run({"--threads", "1"}));
  EXPECT_EQ(run({"--threads", "0"}).exit_code, kExitBadInput);
  EXPECT_EQ(run({"--threads", std::to_string(cpu_cores() + 1)}).exit_code, kExitBadInput);
}

// The analysis of a checkpoint runs with the same kernels.
TEST(AnalyzeOnCpu, KeepsResultsForAnyThreads) {
  const auto analyzed = [&](const std::string& threads) {
    const std::string out = fresh_folder("analysis" + threads);
    expect_fine(run_command({"analyze", checkpoint_of("tinymoe"), "--prompt", "def f(x): return x",
                             "--out", out, "--threads", threads, "--quiet"}));
    return all_bytes(out);
  };
  const auto one = analyzed("1");
  EXPECT_FALSE(one.empty());
  EXPECT_EQ(analyzed(std::to_string(cpu_cores())), one);
}

}  // namespace
}  // namespace moec
