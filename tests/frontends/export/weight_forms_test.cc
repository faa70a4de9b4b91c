// Exports with --weights pass `check`, contain as many weight bytes as `plan` states, and do not
// resume with other forms.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "ir/model/weight_policy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/frontends/export/testing.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct FormsCase {
  const char* name;
  const char* golden;
  Words flags;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const FormsCase& c, std::ostream* out) { *out << c.name; }

class EncodedExport : public testing::TestWithParam<FormsCase> {};

Words with_flags(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// Returns the total weight bytes of all shards.
int64_t exported_bytes(const json& manifest) {
  int64_t bytes = 0;
  for (const json& shard : manifest.at("shards")) bytes += shard.at("weight_bytes").get<int64_t>();
  return bytes;
}

TEST_P(EncodedExport, ContainsThePlannedBytes) {
  const std::string out = fresh_folder("out") + "/out", source = checkpoint_of(GetParam().golden);
  const Words& flags = GetParam().flags;
  const Outcome exported =
      run_command(with_flags({"export", source, "-o", out, "--quiet", "--context", "32"}, flags));
  ASSERT_EQ(exported.exit_code, kExitFine) << exported.err;
  const Outcome checked = run_command({"check", out, "--min-coverage", "0"});
  EXPECT_EQ(checked.exit_code, kExitFine) << checked.out << checked.err;
  const json manifest = read_json(out + "/manifest.json");
  const Outcome planned =
      run_command(with_flags({"plan", source, "--json", "--context", "32"}, flags));
  ASSERT_EQ(planned.exit_code, kExitFine) << planned.out;
  const json plan = json::parse(planned.out);
  EXPECT_EQ(manifest.at("build").at("weights"), plan.at("weights"));
  EXPECT_EQ(read_json(out + "/report.json").at("weights"), plan.at("weights"));
  EXPECT_EQ(exported_bytes(manifest), plan["memory"]["trunk_bytes"].get<int64_t>() +
                                          plan["memory"]["expert_bytes"].get<int64_t>());
}

struct RolesCase {
  const char* name;
  Words flags;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const RolesCase& c, std::ostream* out) { *out << c.name; }

class WeightRoles : public testing::TestWithParam<RolesCase> {};

// Classifies a weight by the name that the passes assign.
std::string role_by_name(const std::string& name) {
  if (name.starts_with("experts.")) return "expert";
  return name.starts_with("router.") ? "routing" : "plain";
}

TEST_P(WeightRoles, MatchTheWeightNames) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, with_flags({"--context", "32"}, GetParam().flags)));
  const json manifest = read_json(out + "/manifest.json");
  size_t experts = 0;
  for (const json& shard : manifest.at("shards"))
    for (const json& weight : shard.at("weights")) {
      EXPECT_EQ(weight.at("role"), role_by_name(weight.at("name"))) << shard.at("name") << weight;
      experts += weight.at("role") == "expert";
    }
  EXPECT_GT(experts, 0u);
  expect_fine(run_command({"check", out}));
}

INSTANTIATE_TEST_SUITE_P(
    Codes, WeightRoles,
    testing::Values(RolesCase{"bank", {"--weights", "int4:32", "--experts", "bank"}},
                    RolesCase{"unrolled", {"--weights", "int4:32"}},
                    RolesCase{"bytes", {"--weights", "int8:32", "--experts", "bank"}},
                    RolesCase{"groups",
                              {"--weights", "experts=int4:32", "--experts", "bank", "--routing",
                               "host", "--experts-per-shard", "3"}},
                    RolesCase{"router", {"--weights", "router=int4:32"}}),
    [](const testing::TestParamInfo<RolesCase>& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Forms, EncodedExport,
    testing::Values(
        FormsCase{"int8", "tinymoe", {"--weights", "int8"}},
        FormsCase{"int8_matmul", "tinymoe", {"--weights", "int8", "--form", "matmul"}},
        FormsCase{"four_bits", "tinymoe", {"--weights", "4bit"}},
        FormsCase{"zeros", "tinymoe", {"--weights", "experts=int4:64:zero"}},
        FormsCase{"odd_zeros", "tinymoe", {"--weights", "int4:32:zero"}},  // rows of 3 blocks
        FormsCase{"int8_blocks", "tinymoe", {"--weights", "int8:32,head=int8:64:zero"}},
        FormsCase{"int8_f16", "tinymoe", {"--weights", "int8", "--dtype", "f16"}},
        FormsCase{"f16_zeros", "tinymoe", {"--weights", "int4:32:zero", "--dtype", "f16"}},
        FormsCase{"bank", "tinymoe", {"--weights", "4bit", "--experts", "bank"}},
        FormsCase{
            "groups",
            "tinymoe",
            {"--weights", "int8,router=int8", "--routing", "host", "--experts-per-shard", "2"}},
        FormsCase{
            "layers", "tinymoe", {"--weights", "experts@1-2=int8", "--layers-per-shard", "2"}},
        FormsCase{"fused", "gpt_oss_a", {"--weights", "int8"}},
        FormsCase{"openvino_blocks", "tinymoe", {"--target", "openvino", "--weights", "4bit"}},
        FormsCase{"ane_int8", "tinymoe", {"--target", "ane", "--weights", "int8"}},
        FormsCase{"ane_tables", "tinymoe", {"--target", "ane", "--weights", "4bit"}},
        FormsCase{"ane_bank",
                  "tinymoe",
                  {"--target", "ane", "--weights", "int3-lut:g8", "--experts", "bank"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(EncodedExports, CountEqualBytesForSeededWeights) {
  const std::string out = fresh_folder("out");
  for (const char* seed : {"", "1"}) {
    Words words = {
        "export", checkpoint_of("tinymoe"), "-o", out + "/of" + seed, "--quiet", "--weights",
        "4bit"};
    if (*seed != 0) words.insert(words.end(), {"--seeded-weights", seed});
    const Outcome exported = run_command(words);
    ASSERT_EQ(exported.exit_code, kExitFine) << exported.err;
  }
  EXPECT_EQ(exported_bytes(read_json(out + "/of/manifest.json")),
            exported_bytes(read_json(out + "/of1/manifest.json")));
}

TEST(EncodedExports, RejectResumingWithOtherForms) {
  const std::string out = fresh_folder("out") + "/out";
  ExportOptions options = export_options_of(checkpoint_of("tinymoe"), "onnx", out);
  options.compile.build.weights = parse_weight_policy("int8", FloatForm{}).value();
  ASSERT_FALSE(export_until(options, 10));
  options.compile.build.weights = parse_weight_policy("experts=int8", FloatForm{}).value();
  const auto other = export_model(options);
  ASSERT_FALSE(other);
  EXPECT_THAT(render(other.error()), HasSubstr("--weights"));
  options.compile.build.weights = parse_weight_policy("int8:row", FloatForm{}).value();
  EXPECT_TRUE(export_model(options)) << "a different spelling of the same forms";
}

TEST(FusedExports, RejectTargetsWithoutTheOp) {
  const std::string out = fresh_folder("out") + "/out";
  for (const std::string target : {"ane", "qnn", "rknn", "openvino", "gguf"}) {
    const Outcome refused = run_command(
        {"export", checkpoint_of("tinymoe"), "-o", out, "--target", target, "--routing", "op"});
    EXPECT_EQ(refused.exit_code, kExitBadInput) << target;
    EXPECT_THAT(refused.err, HasSubstr("export.flags")) << target;
    EXPECT_FALSE(std::filesystem::exists(out)) << target;
  }
}

TEST(EncodedExports, AreRejectedBeforeWriting) {
  const std::string out = fresh_folder("out") + "/out";
  const Outcome refused = run_command({"export", checkpoint_of("tinymoe"), "-o", out, "--target",
                                       "ane", "--weights", "experts@3=int4-lut:g48"});
  EXPECT_NE(refused.exit_code, kExitFine);
  EXPECT_THAT(refused.err, HasSubstr("weights.group"));
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace moec
