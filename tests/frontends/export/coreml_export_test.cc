// Exports for the Neural Engine pass the check and validate in f16.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;

Outcome export_ane(const std::string& golden_case, const std::string& out, Words more = {}) {
  more.insert(more.end(), {"--target", "ane"});
  return export_case(golden_case, out, more);
}

// tests/peers/test_ane_exports.py covers all golden cases and forms with the optimized build.
class AneGoldenCase : public testing::TestWithParam<const char*> {};

TEST_P(AneGoldenCase, ExportsChecksAndValidatesInF16) {
  const std::string out = fresh_folder("out");
  expect_fine(export_ane(GetParam(), out, {"--tokens", "1,16"}));
  expect_fine(run_command({"check", out, "--chip", "m1"}));
  expect_fine(validate_case(GetParam(), out, {"--precision", "f16"}));
}

INSTANTIATE_TEST_SUITE_P(CoremlExport, AneGoldenCase,
                         testing::Values("deepseek_v3_a", "gpt_oss_a", "qwen2_moe_b", "zaya_b"),
                         [](const auto& info) { return std::string(info.param); });

class AneVariant : public testing::TestWithParam<Variant> {};

TEST_P(AneVariant, PassesCheckAndValidatesInF16) {
  const std::string out = fresh_folder("out");
  Words flags = GetParam().flags;
  flags.insert(flags.end(), {"--tokens", "1,5,32"});
  expect_fine(export_ane("olmoe_a", out, flags));
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case("olmoe_a", out, {"--precision", "f16"}));
}

INSTANTIATE_TEST_SUITE_P(
    CoremlExport, AneVariant,
    testing::Values(Variant{"io", {"--kv", "io"}}, Variant{"bank", {"--experts", "bank"}},
                    Variant{"host_groups", {"--routing", "host", "--experts-per-shard", "2"}},
                    Variant{"functions", {"--multi-function"}},
                    Variant{"expert_functions",
                            {"--routing", "host", "--experts-per-shard", "1", "--multi-function"}},
                    Variant{"range_io", {"--widths", "range", "--kv", "io"}}),
    [](const auto& info) { return std::string(info.param.name); });

// Returns a target file with the Neural Engine's rules and the extent limit `limit`.
std::string target_with_extents_up_to(int64_t limit) {
  json target = read_json(source_path("backends/targets/ane.json"));
  for (json& rule : target.at("rules"))
    if (rule.at("id") == "S2.h13") rule.at("limit") = limit;
  std::string path = fresh_folder("target") + "/ane.json";
  std::ofstream(path) << target.dump();
  return path;
}

TEST(CoremlExport, PagesCachesLongerThanAnAxis) {
  const std::string out = fresh_folder("out");
  const std::string target = target_with_extents_up_to(64);
  for (const char* golden_case : {"qwen3_moe_a", "olmoe_b"}) {
    expect_fine(export_case(
        golden_case, out, {"--force", "--target", target, "--context", "96", "--tokens", "1,16"}));
    EXPECT_EQ(read_json(out + "/manifest.json").at("build").at("cache_pages"), 2);
    expect_fine(run_command({"check", out, "--target", target, "--chip", "m1"}));
    expect_fine(validate_case(golden_case, out, {"--precision", "f16"}));
  }
  const Outcome io = export_case("qwen3_moe_a", out,
                                 {"--force", "--target", target, "--context", "96", "--kv", "io",
                                  "--dump-dir", fresh_folder("dump")});
  EXPECT_EQ(io.exit_code, kExitBadInput);
  EXPECT_THAT(io.err, testing::AllOf(HasSubstr("limit.unsplittable"), HasSubstr("--kv state")));
}

TEST(CoremlExport, SlicesVocabulariesAboveTheLimit) {
  const std::string out = fresh_folder("out");
  json target = read_json(source_path("backends/targets/ane.json"));
  for (json& rule : target.at("rules"))
    if (rule.at("id") == "S3") rule.at("limit") = 64;
  const std::string path = fresh_folder("target") + "/ane.json";
  std::ofstream(path) << target.dump();
  expect_fine(export_case("mixtral_a", out, {"--target", path}));
  const json manifest = read_json(out + "/manifest.json");
  const int64_t vocab = manifest.at("model").at("vocab");
  EXPECT_EQ(static_cast<int64_t>(manifest.at("logits").at("slices").size()), (vocab + 63) / 64);
  expect_fine(run_command({"check", out, "--target", path}));
  expect_fine(validate_case("mixtral_a", out, {"--precision", "f16"}));
}

TEST(CoremlExport, ChoosesFunctionsByVersionAndStates) {
  const auto has = [](Words flags, const char* package) {
    const std::string out = fresh_folder("out");
    flags.insert(flags.end(), {"--tokens", "1,8"});
    expect_fine(export_ane("olmoe_a", out, flags));
    return fs::exists(out + "/" + package);
  };
  EXPECT_TRUE(has({}, "moe/L00.mlpackage"));
  EXPECT_TRUE(has({}, "attn/L00.t8.mlpackage"));
  EXPECT_TRUE(has({"--kv", "io"}, "moe/L00.t8.mlpackage"));
  EXPECT_TRUE(has({"--kv", "io", "--spec-version", "9"}, "attn/L00.mlpackage"));
  EXPECT_TRUE(has({"--kv", "io", "--top-k", "1,2"}, "moe/L00.mlpackage"));
}

const Words kExpertFunctions = {"--routing", "host",     "--experts-per-shard",
                                "1",         "--widths", "functions"};

// Returns the shards of an export by name, without what depends on the packaging.
json shards_of(const std::string& out) {
  json shards = read_json(out + "/manifest.json").at("shards");
  for (json& shard : shards) {
    shard.erase("data");
    for (json& width : shard.at("widths"))
      for (const char* key : {"file", "function"}) width.erase(key);
    for (json& weight : shard.at("weights"))
      for (json& range : weight.at("ranges"))
        for (const char* key : {"offset", "data"}) range.erase(key);
  }
  return shards;
}

TEST(CoremlExport, DescribesPackagedExpertsLikeSeparateOnes) {
  const std::string functions = fresh_folder("functions"), separate = fresh_folder("separate");
  for (const char* golden_case : {"olmoe_a", "deepseek_v3_a"}) {
    Words flags = kExpertFunctions;
    flags.insert(flags.end(), {"--force", "--weights", "experts=int4-lut:g4", "--tokens", "1,4"});
    expect_fine(export_ane(golden_case, functions, flags));
    flags.at(5) = "separate";
    expect_fine(export_ane(golden_case, separate, flags));
    EXPECT_EQ(shards_of(functions), shards_of(separate)) << golden_case;
    const json shards = read_json(functions + "/manifest.json").at("shards");
    std::set<std::string> files;
    for (const json& shard : shards)
      if (shard.at("kind") == "router" || shard.at("kind") == "experts")
        files.insert(std::to_string(shard.at("layer").get<int>()) +
                     shard.at("widths")[0].at("file").at("path").get<std::string>());
    size_t routers = 0;
    for (const json& shard : shards) routers += shard.at("kind") == "router";
    EXPECT_EQ(files.size(), routers) << golden_case;
  }
}

TEST(CoremlExport, PagesExpertsOfAPackage) {
  const std::string out = fresh_folder("out");
  expect_fine(export_ane("mixtral_a", out, kExpertFunctions));
  const Words run = {"run", out, "--prompt-tokens", "1,2,3", "--max-tokens", "6", "--json"};
  Words paged = run;
  paged.insert(paged.end(), {"--expert-memory", "1MB"});
  const Outcome whole = run_command(run), parts = run_command(paged);
  ASSERT_EQ(parts.exit_code, kExitFine) << parts.err;
  EXPECT_EQ(json::parse(parts.out).at("tokens"), json::parse(whole.out).at("tokens"));
}

TEST(CoremlExport, DropsFunctionsOfMaskedExperts) {
  const std::string out = fresh_folder("out");
  Words flags = kExpertFunctions;
  flags.insert(flags.end(), {"--expert-mask", "*:1-2", "--drop-masked"});
  expect_fine(export_ane("mixtral_a", out, flags));
  expect_fine(run_command({"check", out}));
  const json shards = read_json(out + "/manifest.json").at("shards");
  std::set<std::string> functions;
  for (const json& shard : shards)
    functions.insert(shard.at("widths")[0].at("function").get<std::string>());
  EXPECT_THAT(functions, testing::ElementsAre("", "expert_1", "expert_2", "router"));
}

TEST(CoremlExport, RefusesToDividePackages) {
  const std::string out = fresh_folder("out"), nodes = fresh_folder("nodes");
  expect_fine(export_ane("mixtral_a", out, kExpertFunctions));
  const Outcome split = run_command({"split", out, "--groups", "2", "--out", nodes});
  EXPECT_EQ(split.exit_code, kExitBadInput);
  EXPECT_THAT(split.err, testing::AllOf(HasSubstr("split.shards"), HasSubstr("--widths separate")));
  Words flags = kExpertFunctions;
  flags.insert(flags.end(), {"--device", "a=3.7MB", "--device", "b=3MB"});
  const Outcome devices = export_ane("tinymoe", fresh_folder("devices"), flags);
  EXPECT_EQ(devices.exit_code, kExitBadInput);
  EXPECT_THAT(devices.err, HasSubstr("plan.packages"));
}

TEST(CoremlExport, CountsHardLinksOnce) {
  const std::string out = fresh_folder("out");
  const Outcome exported =
      export_ane("olmoe_a", out, {"--tokens", "1,8", "--widths", "separate", "--json"});
  ASSERT_EQ(exported.exit_code, kExitFine) << exported.err;
  uint64_t bytes = fs::file_size(out + "/embed.bin"), copied = bytes;
  for (const char* folder : {"/attn", "/moe", "/lm_head"})
    for (const auto& entry : fs::recursive_directory_iterator(out + folder))
      if (entry.is_regular_file()) {
        bytes += entry.file_size() / entry.hard_link_count();
        copied += entry.file_size();
      }
  EXPECT_EQ(json::parse(exported.out).at("file_bytes"), bytes);
  EXPECT_LT(bytes, copied);
}

TEST(CoremlExport, WritesEquallyForAnyJobCount) {
  const std::string one = fresh_folder("one"), four = fresh_folder("four");
  expect_fine(export_ane("qwen3_moe_a", one, {"--tokens", "1,8"}));
  expect_fine(export_ane("qwen3_moe_a", four, {"--tokens", "1,8", "--jobs", "4"}));
  const auto first = all_bytes(one);
  EXPECT_GT(first.size(), 8u);
  EXPECT_EQ(first, all_bytes(four));
}

TEST(CoremlExport, WarnsAboutCompileTimesOfRanges) {
  const std::string out = fresh_folder("out");
  const Outcome exported = export_ane("mixtral_a", out, {"--tokens", "1,8", "--widths", "range"});
  expect_fine(exported);
  EXPECT_THAT(exported.err, HasSubstr("export.range_widths"));
}

TEST(CoremlExport, WritesAneBookNamesAndMetadata) {
  const std::string out = fresh_folder("out");
  const Outcome exported = export_ane("mixtral_a", out, {"--compat", "ane-book"});
  expect_fine(exported);
  EXPECT_THAT(exported.err, HasSubstr("export.book_rotation"));
  const json meta = read_json(out + "/mixtral_a_runtime_meta.json");
  const json config = read_json(checkpoint_of("mixtral_a") + "/config.json");
  EXPECT_EQ(meta.at("d_model"), config.at("hidden_size"));
  EXPECT_EQ(meta.at("vocab_size"), config.at("vocab_size"));
  EXPECT_EQ(meta.at("model_family"), "mixtral");
  EXPECT_EQ(meta.at("n_layers"), meta.at("layers").size());
  EXPECT_EQ(meta.at("n_experts"), config.at("num_local_experts"));
  EXPECT_EQ(meta.at("n_kv_heads"), config.at("num_key_value_heads"));
  EXPECT_EQ(meta.at("embed_bin"), "mixtral_a_embed.bin");
  EXPECT_EQ(fs::file_size(out + "/mixtral_a_embed.bin"),
            meta.at("vocab_size").get<size_t>() * meta.at("d_model").get<size_t>() * 2);
  ASSERT_EQ(meta.at("layers").size(), 2 * config.at("num_hidden_layers").get<size_t>());
  EXPECT_EQ(meta["layers"][0]["kind"], "attn_stateful");
  EXPECT_EQ(meta["layers"][1]["kind"], "moe");
  for (size_t i = 0; i < meta["layers"].size(); ++i) EXPECT_EQ(meta["layers"][i]["layer"], i);
  EXPECT_EQ(meta["layers"][1]["mlmodelc"], "mixtral_a_ane/moe/L00.t1.mlmodelc");
  ASSERT_EQ(meta.at("lm_head_shards").size(), 2u);
  EXPECT_EQ(meta["lm_head_shards"][0]["vocab_start"], 0);
  EXPECT_EQ(meta["lm_head_shards"][0]["vocab_end"], meta["lm_head_shards"][1]["vocab_start"]);
  EXPECT_EQ(meta["lm_head_shards"][1]["vocab_end"], meta["vocab_size"]);
  for (const json& layer : meta["layers"])
    EXPECT_TRUE(fs::is_directory(out + "/" + layer.at("mlpackage").get<std::string>()));
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case("mixtral_a", out, {"--precision", "f16"}));
  expect_fine(export_ane("mixtral_a", out, {"--compat", "ane-book", "--force"}));
}

TEST(CoremlExport, AneBookUsesNameAsPrefix) {
  const std::string out = fresh_folder("out");
  expect_fine(export_ane("mixtral_a", out, {"--compat", "ane-book", "--name", "zaya"}));
  const json meta = read_json(out + "/zaya_runtime_meta.json");
  EXPECT_EQ(meta.at("model_family"), "zaya");
  EXPECT_EQ(meta.at("model_id"), "zaya");
  EXPECT_EQ(meta.at("embed_bin"), "zaya_embed.bin");
  EXPECT_EQ(meta["layers"][1]["mlpackage"], "zaya_ane/moe/L00.t1.mlpackage");
  EXPECT_EQ(meta.at("lm_head_shards").size(), 2u);
  expect_fine(run_command({"check", out}));
  expect_fine(
      export_ane("mixtral_a", out,
                 {"--compat", "ane-book", "--name", "zaya", "--head-slices", "3", "--force"}));
  EXPECT_EQ(read_json(out + "/zaya_runtime_meta.json").at("lm_head_shards").size(), 3u);
}

TEST(CoremlExport, AneBookLimitsTheCache) {
  const CheckpointCopy copy("mixtral_a");
  copy.edit_config([](auto& config) { config["max_position_embeddings"] = 16384; });
  const Outcome refused =
      run_command({"export", copy.folder(), "--out", fresh_folder("out"), "--target", "ane",
                   "--compat", "ane-book", "--context", "8224"});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("compat.ane_book"));
  EXPECT_THAT(refused.err, HasSubstr("--context 8192"));
}

TEST(CoremlExport, AneBookRejectsInvalidNames) {
  const std::string out = fresh_folder("out");
  for (const char* name : {"../zaya", "", "a b"})
    EXPECT_EQ(export_ane("mixtral_a", out, {"--compat", "ane-book", "--name", name}).exit_code,
              kExitBadInput)
        << name;
  EXPECT_THAT(export_ane("mixtral_a", out, {"--name", "zaya"}).err, HasSubstr("--compat"));
}

struct Refusal {
  const char* name;
  const char* golden_case;
  Words flags;
  const char* code;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Refusal& refusal, std::ostream* out) { *out << refusal.name; }

class AneRefusal : public testing::TestWithParam<Refusal> {};

TEST_P(AneRefusal, FailsWithoutWritingAManifest) {
  const std::string out = fresh_folder("out");
  Words flags = GetParam().flags;
  flags.insert(flags.end(),
               // receives the reproducers of failing passes
               {"--dump-dir", fresh_folder("dumps")});
  const Outcome outcome = export_case(GetParam().golden_case, out, flags);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().code));
  EXPECT_FALSE(fs::exists(out + "/manifest.json"));
}

INSTANTIATE_TEST_SUITE_P(
    CoremlExport, AneRefusal,
    testing::Values(
        Refusal{"target", "mixtral_a", {"--target", "an"}, "target.unknown"},
        Refusal{"chip", "mixtral_a", {"--target", "ane", "--chip", "m99"}, "target.unknown_chip"},
        Refusal{"f32", "mixtral_a", {"--target", "ane", "--dtype", "f32"}, "target.S9"},
        Refusal{"topk", "mixtral_a", {"--target", "ane", "--routing", "topk"}, "error[target."},
        Refusal{
            "spec", "mixtral_a", {"--target", "ane", "--spec-version", "7"}, "coreml.spec_too_low"},
        Refusal{"functions_of_onnx", "mixtral_a", {"--multi-function"}, "export.flags"},
        Refusal{"checksum_of_coreml",
                "mixtral_a",
                {"--target", "ane", "--onnx-checksum"},
                "export.flags"},
        Refusal{"state_of_onnx", "mixtral_a", {"--kv", "state"}, "export.flags"},
        Refusal{"range_of_one",
                "mixtral_a",
                {"--target", "ane", "--widths", "range", "--tokens", "4"},
                "coreml.range"},
        Refusal{"book_io",
                "mixtral_a",
                {"--target", "ane", "--compat", "ane-book", "--kv", "io"},
                "compat.ane_book"},
        Refusal{"book_onnx", "mixtral_a", {"--compat", "ane-book"}, "compat.ane_book"},
        Refusal{"book_dense",
                "qwen2_moe_b",
                {"--target", "ane", "--compat", "ane-book"},
                "compat.ane_book"},
        Refusal{"book_chunks",
                "llama4_text_b",
                {"--target", "ane", "--compat", "ane-book"},
                "compat.ane_book"},
        Refusal{"book_history",
                "zaya_a",
                {"--target", "ane", "--compat", "ane-book"},
                "compat.ane_book"}),
    [](const auto& info) { return std::string(info.param.name); });

// --seeded-weights needs only a config file.
TEST(CoremlExport, ExportsSeededWeightsWithoutACheckpoint) {
  const std::string out = fresh_folder("out"), again = fresh_folder("again");
  const std::string config = checkpoint_of("mixtral_a") + "/config.json";
  for (const std::string& folder : {out, again})
    expect_fine(run_command({"export", config, "--out", folder, "--target", "ane",
                             "--seeded-weights", "7", "--quiet"}));
  EXPECT_EQ(all_bytes(out), all_bytes(again));
  expect_fine(run_command({"check", out}));
  const json manifest = read_json(out + "/manifest.json");
  EXPECT_EQ(manifest.at("build").at("seeded"), true);
  const Outcome without = run_command({"export", config, "--out", again, "--force"});
  EXPECT_EQ(without.exit_code, kExitBadInput);
}

}  // namespace
}  // namespace moec
