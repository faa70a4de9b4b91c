// Models that break a rule of the Neural Engine: `moec check --target ane` reports the rule for
// their ONNX exports. Exports for the Neural Engine are split to fit or rejected.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Breaking {
  const char* rule;
  const char* golden_case;  // its config.json is edited before the export
  json changes;
  Words flags;
  const char* chip = "m1";
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Breaking& breaking, std::ostream* out) { *out << breaking.rule; }

std::string changed_config(const Breaking& breaking) {
  json config = read_json(checkpoint_of(breaking.golden_case) + "/config.json");
  config.update(breaking.changes);
  std::string path = fresh_folder("source") + "/config.json";
  std::ofstream(path) << config.dump();
  return path;
}

Outcome export_seeded(const Breaking& breaking, const std::string& out, Words more = {}) {
  Words words = {"export", changed_config(breaking), "--seeded-weights", "1", "-o", out};
  words.insert(words.end(), breaking.flags.begin(), breaking.flags.end());
  words.insert(words.end(), more.begin(), more.end());
  return run_command(words);
}

class RefusedByRule : public testing::TestWithParam<Breaking> {};

TEST_P(RefusedByRule, IsReportedByTheCheck) {
  const std::string out = fresh_folder("out");
  expect_fine(export_seeded(GetParam(), out));
  const std::string code = std::string("error[target.") + GetParam().rule + "]";
  const Outcome broken = run_command({"check", out, "--target", "ane", "--chip", GetParam().chip});
  EXPECT_EQ(broken.exit_code, kExitFellShort);
  EXPECT_THAT(broken.err + broken.out, HasSubstr(code));
}

const json kLong = {{"max_position_embeddings", 70000}, {"sliding_window", nullptr}};

INSTANTIATE_TEST_SUITE_P(
    ByRule, RefusedByRule,
    testing::Values(Breaking{"S2.h13", "mixtral_a", kLong, {"--context", "20000"}},
                    Breaking{"S2.h16", "mixtral_a", kLong, {"--context", "70000"}, "m4"},
                    Breaking{"S3", "mixtral_a", {{"vocab_size", 70000}}, {"--form", "conv"}},
                    Breaking{"S4", "mixtral_a", {{"vocab_size", 70000}}, {}},
                    Breaking{"S5.h13", "mixtral_a", kLong, {"--context", "20000"}},
                    Breaking{"S5.h16", "mixtral_a", kLong, {"--context", "70000"}, "m4"},
                    Breaking{"S9", "mixtral_a", json::object(), {}},
                    Breaking{"S12", "olmoe_a", {{"clip_qkv", 1e5}}, {}},
                    Breaking{"P1", "mixtral_a", json::object(), {"--routing", "topk"}},
                    Breaking{"P2", "mixtral_a", json::object(), {}}),
    [](const auto& info) {
      std::string name = info.param.rule;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });

TEST(AneFit, SplitsLongContextsAndLargeVocabularies) {
  const std::string out = fresh_folder("out");
  const Breaking context{"S2.h13", "mixtral_a", kLong, {"--context", "20000", "--target", "ane"}};
  expect_fine(export_seeded(context, out));
  expect_fine(run_command({"check", out, "--chip", "m1"}));
  const Breaking vocab{"S3", "mixtral_a", {{"vocab_size", 70000}}, {"--target", "ane", "--force"}};
  expect_fine(export_seeded(vocab, out));
  expect_fine(run_command({"check", out, "--chip", "m1"}));
}

TEST(AneFit, RejectsUnsplittableModels) {
  const std::string out = fresh_folder("out");
  const Breaking clip{"S12", "olmoe_a", {{"clip_qkv", 1e5}}, {"--target", "ane"}};
  const Outcome clipped = export_seeded(clip, out, {"--dump-dir", fresh_folder("dump")});
  EXPECT_NE(clipped.exit_code, kExitFine);
  EXPECT_THAT(clipped.err, HasSubstr("S12"));
  const Breaking io{
      "S2.h13", "mixtral_a", kLong, {"--context", "20000", "--target", "ane", "--kv", "io"}};
  const Outcome appended = export_seeded(io, out, {"--force", "--dump-dir", fresh_folder("dump")});
  EXPECT_EQ(appended.exit_code, kExitBadInput);
  EXPECT_THAT(appended.err, HasSubstr("limit.unsplittable"));
}

}  // namespace
}  // namespace moec
