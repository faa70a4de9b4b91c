// Exports with budgets below the size of an expert, a shared expert or a dense MLP: slices along
// the intermediate width, from the plan to the files and back.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "ir/base/at.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/jobs/check/edited_export.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::Field;
using testing::Gt;
using testing::HasSubstr;

// Returns flags with a budget of about two thirds of an expert for feed-forward shards.
Words below_an_expert(const std::string& golden_case, Words more = {}) {
  Words words = {"plan", checkpoint_of(golden_case), "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const double bytes = json::parse(run_command(words).out)["expert_bytes"].get<double>();
  const std::string megabytes = std::to_string(bytes * 0.7e-6);
  more.insert(more.end(), {"--max-shard-mb", "moe=" + megabytes + ",mlp=" + megabytes});
  return more;
}

Rows logits_of(const std::string& folder, int64_t* skipped = nullptr) {
  auto session = Session::open(folder, read_shard);
  EXPECT_TRUE(session.has_value()) << render(session.error());
  const std::vector<int64_t> tokens = {3, 1, 4};
  const auto logits = session->feed(tokens);
  EXPECT_TRUE(logits.has_value()) << render(logits.error());
  if (skipped) *skipped = session->skipped_steps();
  return *logits;
}

double largest_difference(const Rows& a, const Rows& b) {
  EXPECT_EQ(a.data.size(), b.data.size());
  double largest = 0;
  for (size_t i = 0; i < a.data.size(); ++i)
    largest = std::max(largest, std::abs(double{a.data[i]} - double{b.data[i]}));
  return largest;
}

class SlicedCase : public testing::TestWithParam<const char*> {};

// Covers shared experts with a gate (qwen2_moe_b) and dense layers (deepseek_v3_a). Covers biases
// of experts (gpt_oss_a) and of all MLPs (ernie4_5_moe_a). Covers routing weights on the input
// (llama4_text_a), affine residuals (zaya_b), and a model without a cache
// (openai_privacy_filter_a).
TEST_P(SlicedCase, ValidatesLikeTheWhole) {
  const std::string out = fresh_folder("out"), whole = fresh_folder("whole");
  expect_fine(export_case(GetParam(), out, below_an_expert(GetParam(), {"--tokens", "1,16"})));
  EXPECT_THAT(read_manifest(out)->shards, Contains(Field(&manifest::Shard::slices, Gt(1))));
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case(GetParam(), out));
  expect_fine(export_case(GetParam(), whole, {"--tokens", "1,16"}));
  EXPECT_LT(largest_difference(logits_of(out), logits_of(whole)), 1e-4);
}

TEST_P(SlicedCase, ValidatesInPackages) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case(GetParam(), out,
                          below_an_expert(GetParam(), {"--target", "ane", "--tokens", "1,16"})));
  EXPECT_THAT(read_manifest(out)->shards, Contains(Field(&manifest::Shard::slices, Gt(1))));
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case(GetParam(), out, {"--precision", "f16"}));
}

INSTANTIATE_TEST_SUITE_P(Slices, SlicedCase,
                         testing::Values("mixtral_a", "qwen2_moe_b", "deepseek_v3_a", "gpt_oss_a",
                                         "ernie4_5_moe_a", "llama4_text_a", "zaya_b",
                                         "openai_privacy_filter_a"),
                         [](const auto& info) { return std::string(info.param); });

TEST(Slices, AreListedInTheManifest) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, below_an_expert("mixtral_a")));
  const Manifest manifest = read_manifest(out).value();
  for (const int64_t slice : {0, 1}) {
    const manifest::Shard* shard = manifest.find_shard("L01.moe.g3.s" + std::to_string(slice));
    ASSERT_NE(shard, nullptr);
    EXPECT_EQ(shard->first_expert, 3);
    EXPECT_EQ(shard->experts, 1);
    EXPECT_EQ(shard->slice, slice);
    EXPECT_EQ(shard->slices, 2);
  }
}

// A token selects two of five experts, so all slices of the other three are skipped in each layer.
TEST(Slices, AreSkippedForUnselectedExperts) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, below_an_expert("mixtral_a")));
  auto session = Session::open(out, read_shard).value();
  const std::vector<int64_t> token = {3};
  ASSERT_TRUE(session.feed(token).has_value());
  EXPECT_EQ(session.skipped_steps(), 2 * 3 * 2);
}

// ---- What the check finds ----------------------------------------------------------------------

void expect_reported(const Outcome& outcome, const std::vector<std::string>& message) {
  EXPECT_NE(outcome.exit_code, kExitFine) << outcome.out;
  for (const std::string& part : message) EXPECT_THAT(outcome.out + outcome.err, HasSubstr(part));
}

void copy_over(const EditedExport& edited, const std::string& from, const std::string& to) {
  std::filesystem::copy_file(edited.path(from), edited.path(to),
                             std::filesystem::copy_options::overwrite_existing);
}

TEST(SlicesChecked, FindsASwappedSlice) {
  const EditedExport edited("mixtral_a", below_an_expert("mixtral_a"));
  copy_over(edited, "moe/L00.g2.s0.data", "moe/L00.g2.s1.data");
  edited.bring_manifest_in_line();
  expect_reported(edited.check(),
                  {"error[coverage.changed_expert]", "shard L00.moe.g2.s1: ", "expert 2"});
}

TEST(SlicesChecked, FindsASwappedSliceInPackages) {
  const EditedExport edited("mixtral_a", below_an_expert("mixtral_a", {"--target", "ane"}));
  const std::string weights = ".t1.mlpackage/Data/com.apple.CoreML/weights/weight.bin";
  copy_over(edited, "moe/L00.g2.s0" + weights, "moe/L00.g2.s1" + weights);
  edited.bring_manifest_in_line();
  expect_reported(edited.check(), {"error[coverage.changed_expert]", "expert 2", "L00.g2.s1"});
}

TEST(SlicesChecked, FindsASliceOfAnotherExpert) {
  const EditedExport edited("mixtral_a", below_an_expert("mixtral_a"));
  copy_over(edited, "moe/L00.g1.s1.data", "moe/L00.g2.s1.data");
  edited.bring_manifest_in_line();
  expect_reported(edited.check(),
                  {"error[coverage.changed_expert]", "shard L00.moe.g2.s1", "belongs to expert 1"});
}

// Removes the shard from the manifest and connects the next shard to the removed shard's input.
void leave_out(const EditedExport& edited, const std::string& name) {
  edited.edit_manifest([&](EditedExport::Json& m) {
    using Json = EditedExport::Json;
    std::string read, written;
    for (const Json& step : m["schedule"])
      if (step["shard"] == name) {
        read = step["inputs"][0]["edge"];
        written = step["outputs"][0]["edge"];
      }
    for (Json& step : m["schedule"])
      for (Json& input : step["inputs"])
        if (input["edge"] == written) input["edge"] = read;
    const auto drop = [&](Json& list, const char* key) {
      std::erase_if(list.get_ref<Json::array_t&>(),
                    [&](const Json& entry) { return entry[key] == name; });
    };
    drop(m["shards"], "name");
    drop(m["schedule"], "shard");
  });
}

TEST(SlicesChecked, FindsAMissingExpertSlice) {
  const EditedExport edited("mixtral_a", below_an_expert("mixtral_a"));
  leave_out(edited, "L00.moe.g2.s1");
  expect_reported(edited.check(),
                  {"error[manifest.experts]",
                   "experts of layer 0 starting at 2: found slice 0 of 2, expected slice 0 of 1"});
}

TEST(SlicesChecked, FindsMissingMlpSlices) {
  const Words flags = below_an_expert("qwen2_moe_b");
  const EditedExport edited("qwen2_moe_b", flags);
  std::string dense, shared;
  for (const manifest::Shard& shard : edited.manifest().shards) {
    if (shard.kind == ShardKind::mlp && shard.slices > 1) dense = shard.name;
    if (shard.kind == ShardKind::shared && shard.slices > 1) shared = shard.name;
  }
  ASSERT_FALSE(dense.empty());
  ASSERT_FALSE(shared.empty());
  leave_out(edited, dense);
  leave_out(edited, shared);
  expect_reported(edited.check(),
                  {"error[manifest.layer]", "the MLP of layer", "the shared expert of layer"});
}

}  // namespace
}  // namespace moec
