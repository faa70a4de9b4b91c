// moec compare on exports of small checkpoints.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::string compared_export(const std::string& golden_case, const std::string& name,
                            const Words& flags = {}) {
  const std::string out = fresh_folder(name);
  expect_fine(export_case(golden_case, out, flags));
  return out;
}

// The first bytes of tinymoe's held-out text.
std::string heldout(size_t bytes) {
  const std::string path = fresh_folder("text") + "/heldout";
  write_file(path, read_file(source_path("tests/data/tinymoe_heldout.bin")).substr(0, bytes));
  return path;
}

std::string ids_file(const std::string& ids) {
  const std::string path = fresh_folder("ids") + "/ids";
  write_file(path, ids);
  return path;
}

json comparison(Words words, int exit_code = kExitFine) {
  words.insert(words.begin(), "compare");
  words.emplace_back("--json");
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
  json report = json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(report.value("ok", json()), exit_code == kExitFine);
  return report;
}

std::string code_of(const Words& words) {
  return comparison(words, kExitBadInput)["diagnostics"][0]["code"];
}

TEST(Compare, FindsNoDifferenceFromItself) {
  const std::string out = compared_export("tinymoe", "out");
  const json report = comparison({out, out, "--text", heldout(210), "--window", "100"});
  EXPECT_EQ(report["windows"], 2);
  EXPECT_EQ(report["unused_tokens"], 10);
  EXPECT_EQ(report["tokens"], 200);
  EXPECT_EQ(report["kl"]["mean"], 0);
  EXPECT_EQ(report["kl_p99"], 0);
  EXPECT_EQ(report["top1"]["mean"], 1);
  EXPECT_EQ(report["bits"]["tokens"], 198);
  EXPECT_EQ(report["bits"]["difference"]["mean"], 0);
  EXPECT_EQ(report["shards"].size(), 9u);
  for (const json& shard : report["shards"]) EXPECT_EQ(shard["sqnr_db"], nullptr) << shard;
  EXPECT_EQ(report["routers"].size(), 4u);
  for (const json& router : report["routers"]) {
    EXPECT_EQ(router["flipped_sets"], 0);
    EXPECT_EQ(router["weight_moved"], 0);
    int chosen = 0;
    for (const json& tokens : router["tokens_of_experts"]) chosen += tokens.get<int>();
    EXPECT_EQ(chosen, 400);
  }
}

TEST(Compare, ScoresFewerBitsWorse) {
  const std::string text = heldout(192);
  const auto made = [](const std::string& name, Words flags) {
    flags.insert(flags.end(), {"--tokens", "32", "--context", "96"});
    return compared_export("tinymoe", name, flags);
  };
  const std::string plain = made("plain", {}), int8 = made("int8", {"--weights", "int8"}),
                    four = made("four", {"--weights", "4bit"});
  const json eight = comparison({plain, int8, "--text", text});
  EXPECT_EQ(eight["windows"], 2);
  EXPECT_GT(eight["kl"]["mean"], 0);
  EXPECT_LT(eight["kl"]["mean"], 0.001);
  EXPECT_GE(eight["kl_p99"], eight["kl"]["mean"]);
  EXPECT_GT(eight["top1"]["mean"], 0.95);
  EXPECT_LT(eight["bits"]["a"]["mean"], 4);
  ASSERT_EQ(eight["shards"].size(), 9u);
  for (const json& shard : eight["shards"]) {
    EXPECT_GT(shard["sqnr_db"], 25) << shard;
    EXPECT_GT(shard["mean_cosine"], 0.99) << shard;
    EXPECT_EQ(shard.contains("cache"), shard["shard"].get<std::string>().ends_with(".attn"));
  }
  ASSERT_EQ(eight["experts"].size(), 64u);
  const json fewer = comparison({plain, four, "--text", text});
  uint64_t routed = 0;
  for (size_t i = 0; i < 64; ++i) {
    const json &expert = eight["experts"][i], &router = eight["routers"][i / 16];
    EXPECT_EQ(expert["layer"], i / 16);
    EXPECT_EQ(expert["expert"], i % 16);
    EXPECT_EQ(expert["tokens"], router["tokens_of_experts"][i % 16]) << i;
    routed += expert["tokens"].get<uint64_t>();
    ASSERT_EQ(expert.contains("relative_l2"), expert["tokens"] != 0) << i;
    if (expert["tokens"] == 0) continue;
    EXPECT_GT(expert["relative_l2"], 0.001) << expert;
    EXPECT_LT(expert["relative_l2"], 0.03) << expert;
    EXPECT_GT(fewer["experts"][i]["relative_l2"], 3 * expert["relative_l2"].get<double>());
  }
  EXPECT_EQ(routed, 2u * 4 * 192);
  EXPECT_GT(fewer["kl"]["mean"], eight["kl"]["mean"]);
  EXPECT_LT(fewer["kl"]["mean"], 0.05);
  EXPECT_GT(fewer["routers"][3]["weight_moved"], eight["routers"][3]["weight_moved"]);
}

TEST(Compare, MeasuresInt8ActivationsOfB) {
  const std::string four = compared_export(
      "tinymoe", "four", {"--weights", "attn=int8:32,experts=int4", "--tokens", "1,32"});
  const std::string text = heldout(96);
  const json exact = comparison({four, four, "--text", text, "--activations", "f32"});
  EXPECT_EQ(exact["kl"]["mean"], 0);
  const json rounded = comparison({four, four, "--text", text, "--activations", "int8"});
  EXPECT_GT(rounded["kl"]["mean"], 0);
  EXPECT_LT(rounded["kl"]["mean"], 0.001);
  EXPECT_EQ(
      code_of(Words{four, four, "--text", text, "--activations", "int8", "--precision", "f16"}),
      "cli.conflict");
  const std::string groups = ids_file("{}");
  EXPECT_EQ(code_of(Words{four, "--groups", groups, "--activations", "int8"}), "cli.conflict");
}

TEST(Compare, MeasuresF16CachesOfB) {
  const std::string plain = compared_export("tinymoe", "plain"), text = heldout(96);
  const json rounded = comparison({plain, plain, "--text", text, "--cache-dtype", "f16"});
  EXPECT_GT(rounded["kl"]["mean"], 0);
  EXPECT_LT(rounded["kl"]["mean"], 1e-4);
  EXPECT_EQ(code_of({plain, "--groups", ids_file("{}"), "--cache-dtype", "f16"}), "cli.conflict");
}

TEST(Compare, ReportsMissedThresholds) {
  const std::string plain = compared_export("tinymoe", "plain"), text = heldout(64);
  const std::string int8 = compared_export("tinymoe", "int8", {"--weights", "int8"});
  const Words words = {plain, int8, "--text", text};
  const auto with = [&](Words more) {
    more.insert(more.begin(), words.begin(), words.end());
    return more;
  };
  comparison(with({"--max-kl", "1", "--min-top1", "1"}));
  const json missed =
      comparison(with({"--max-kl", "1e-12", "--min-top1", "100.5"}), kExitFellShort);
  ASSERT_EQ(missed["diagnostics"].size(), 2u);
  EXPECT_EQ(missed["diagnostics"][0]["code"], "compare.threshold");
  EXPECT_EQ(missed["diagnostics"][1]["code"], "compare.threshold");
  Words text_words = with({"--max-kl", "0", "--quiet"});
  text_words.insert(text_words.begin(), "compare");
  const Outcome printed = run_command(text_words);
  EXPECT_EQ(printed.exit_code, kExitFellShort);
  EXPECT_THAT(printed.out, HasSubstr("bits per byte"));
  EXPECT_THAT(printed.out, HasSubstr("FELL SHORT"));
}

TEST(Compare, ComparesWithAGolden) {
  const std::string golden = source_path("tests/golden/qwen3_moe_a");
  const std::string plain = compared_export("qwen3_moe_a", "plain");
  const json equal = comparison({golden, plain});
  EXPECT_EQ(equal["windows"], 1);
  EXPECT_EQ(equal["window"], 28);
  EXPECT_EQ(equal["tokens"], 28);
  EXPECT_EQ(equal["bits"]["tokens"], 27);
  EXPECT_LT(equal["kl"]["mean"], 1e-9);
  EXPECT_EQ(equal["top1"]["mean"], 1);
  EXPECT_EQ(equal["shards"].size(), 5u);
  EXPECT_EQ(equal["experts"].size(), 0u);
  ASSERT_EQ(equal["routers"].size(), 2u);
  for (const json& router : equal["routers"]) {
    EXPECT_EQ(router["tokens"], 28);
    EXPECT_EQ(router["flipped_sets"], 0);
    EXPECT_LT(router["weight_moved"], 1e-5);
  }
  const std::string four =
      compared_export("qwen3_moe_a", "four", {"--weights", "4bit", "--form", "matmul"});
  const json fewer = comparison({golden, four, "--max-kl", "1e-3"}, kExitFellShort);
  EXPECT_GT(fewer["kl"]["mean"], 1e-3);
  EXPECT_LT(fewer["kl"]["mean"], 0.1);
  for (const json& shard : fewer["shards"]) {
    const std::string name = shard["shard"];
    EXPECT_LT(shard["sqnr_db"], name.ends_with(".moe") ? 30 : 60) << shard;
    EXPECT_GT(shard["sqnr_db"], name.ends_with(".moe") ? 15 : 35) << shard;
    EXPECT_FALSE(shard.contains("mean_cosine"));
  }
  EXPECT_EQ(code_of(Words{golden, plain, "--text", heldout(64)}), "compare.golden_text");
  const std::string other = compared_export("qwen3_moe_b", "other");
  EXPECT_EQ(code_of(Words{golden, other}), "golden.other_model");
}

// Predictions are comparable across targets, widths, splits and routing forms.
TEST(Compare, ComparesDifferentlySplitExports) {
  const std::string plain = compared_export("mixtral_a", "plain");
  const std::string ids = ids_file("1,2,3,4,5,6,7 8\n9 1 2 3");
  const std::string wide = compared_export("mixtral_a", "wide", {"--tokens", "1,4"});
  const json same = comparison({plain, wide, "--tokens", ids});
  EXPECT_LT(same["kl"]["mean"], 1e-9);
  EXPECT_EQ(same["top1"]["mean"], 1);
  EXPECT_EQ(same["bits"]["per"], "token");
  EXPECT_GT(same["shards"].size(), 0u);
  const std::string host = compared_export("mixtral_a", "host", {"--routing", "host"});
  const json other = comparison({plain, host, "--tokens", ids});
  EXPECT_LT(other["kl"]["mean"], 1e-9);
  EXPECT_EQ(other["shards"].size(), 0u);
  EXPECT_EQ(other["experts"].size(), 0u);
  EXPECT_EQ(other["diagnostics"][0]["code"], "compare.other_shards");
  const std::string ane =
      compared_export("mixtral_a", "ane", {"--target", "ane", "--dtype", "f16"});
  EXPECT_LT(comparison({plain, ane, "--tokens", ids})["kl"]["mean"], 1e-3);
}

TEST(Compare, RejectsBadInput) {
  const std::string out = compared_export("mixtral_a", "out");
  const std::string other = compared_export("mixtral_b", "other");
  const std::string ids = ids_file("1 2 3");
  EXPECT_EQ(code_of(Words{out, other, "--tokens", ids}), "compare.checkpoint");
  EXPECT_EQ(code_of(Words{out, checkpoint_of("mixtral_a"), "--tokens", ids}), "cli.wrong_source");
  EXPECT_EQ(code_of(Words{out, out}), "compare.empty");
  EXPECT_EQ(code_of(Words{out, out, "--tokens", ids_file(" \n")}), "compare.empty");
  EXPECT_EQ(code_of(Words{out, out, "--tokens", ids_file("1 x")}), "compare.tokens");
  EXPECT_EQ(code_of(Words{out, out, "--tokens", ids_file("1 99999999")}), "compare.vocabulary");
  EXPECT_EQ(code_of(Words{out, out, "--tokens", fresh_folder("nothing")}), "compare.text");
  EXPECT_EQ(code_of(Words{out, out, "--text", ids}), "compare.no_tokenizer");
  EXPECT_EQ(code_of(Words{out, out, "--text", ids, "--tokens", ids}), "cli.conflict");
}

}  // namespace
}  // namespace moec
