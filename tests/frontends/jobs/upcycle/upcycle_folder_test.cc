// The folder of an upcycled model: its content, and when the folder appears.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/frontends/jobs/upcycle/upcycle_cases.h"

namespace moec {
namespace {

namespace fs = std::filesystem;

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

std::string with_tokenizer() {
  const CheckpointCopy copy("mistral_a");
  copy.write("tokenizer.json", "{\"model\": {}}");
  copy.write("generation_config.json", "{}");
  return copy.folder();
}

TEST(UpcycleFolder, ContainsCheckpointAndTokenizer) {
  const std::string source = with_tokenizer();
  const Upcycled made = upcycle(source, {"--max-shard-mb", "40KiB"});
  ASSERT_EQ(made.outcome.exit_code, 0) << made.outcome.out;
  std::set<std::string> reported = {"moec_upcycle.json"};
  for (const auto& file : made.report["files"]) {
    reported.insert(file["path"]);
    EXPECT_EQ(file["bytes"], fs::file_size(made.folder + "/" + file["path"].get<std::string>()));
  }
  EXPECT_EQ(names_in(made.folder), reported);
  for (const char* name : {"config.json", "model.safetensors.index.json", "tokenizer.json"})
    EXPECT_TRUE(reported.contains(name)) << name;
  EXPECT_EQ(read_file(made.folder + "/tokenizer.json"), read_file(source + "/tokenizer.json"));
}

TEST(UpcycleFolder, RecordsItsOriginInTheConfig) {
  const Upcycled made =
      upcycle(checkpoint_of("mistral_a"), {"--granularity", "2", "--noise", "0.5", "--seed", "7"});
  const auto config = nlohmann::json::parse(read_file(made.folder + "/config.json"));
  const auto& origin = config.at("moec_upcycle");
  EXPECT_EQ(origin["source"], "mistral_a");
  EXPECT_EQ(origin["seed"], 7);
  EXPECT_EQ(origin["init"], "virtual-group");
  EXPECT_EQ(origin["granularity"], 2);
  EXPECT_EQ(origin["factors"]["down"], 2.0);
  EXPECT_EQ(origin["exactness"]["class"], "inexact");
  EXPECT_EQ(origin["exactness"]["reasons"][0], "noise was added to the experts");
  EXPECT_EQ(config["sliding_window"], 7);
}

TEST(UpcycleFolder, RecordsTheRequestedElementType) {
  const auto dtype_of = [](const Words& flags) {
    const Upcycled made = upcycle(checkpoint_of("mistral_a"), flags);
    return nlohmann::json::parse(read_file(made.folder + "/config.json"))["dtype"];
  };
  EXPECT_EQ(dtype_of({}), "bfloat16");
  EXPECT_EQ(dtype_of({"--dtype", "f32"}), "float32");
}

TEST(UpcycleFolder, FollowsALinkToAFolder) {
  const std::string folder = fresh_folder("meant"), link = no_upcycled("link");
  fs::remove(link);
  fs::create_directory_symlink(folder, link);
  const Outcome outcome = run_command({"upcycle", checkpoint_of("mistral_a"), "--out", link, "-q"});
  expect_fine(outcome);
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_TRUE(fs::exists(folder + "/config.json"));
}

TEST(UpcycleFolder, ReportsNonfiniteWeights) {
  const CheckpointCopy copy("mistral_a");
  copy.overwrite("model.layers.0.mlp.up_proj.weight", std::string("\x80\x7f\xc0\x7f", 4));
  for (const Words& flags : {Words{"--experts", "4"}, Words{"--experts", "4", "--noise", "0.1"}}) {
    const Upcycled made = upcycle(copy.folder(), flags);
    EXPECT_EQ(made.outcome.exit_code, 0);
    const auto& found = made.report["diagnostics"];
    ASSERT_EQ(found.size(), 1u) << made.outcome.out;
    EXPECT_EQ(found[0]["code"], "upcycle.nonfinite_weights");
    EXPECT_EQ(found[0]["cause"], "8 weights are NaN or infinite, as in the source");
  }
}

// The logits after token 0 are NaN; the logits of later windows are finite.
TEST(UpcycleFolder, RejectsVerifyingNonfiniteLogits) {
  const CheckpointCopy copy("llama_b");
  copy.overwrite("model.embed_tokens.weight", std::string("\xc0\x7f", 2));
  const std::string ids = fresh_folder("ids") + "/ids.txt";
  std::ofstream(ids) << "0,1,2,3,4,5,6,7,8,9,10,11\n";
  const Upcycled made =
      upcycle(copy.folder(), {"--verify", "--tokens", ids, "--window", "4", "--dtype", "f32"});
  EXPECT_EQ(made.outcome.exit_code, kExitBadInput) << made.outcome.out;
  EXPECT_THAT(made.outcome.out, testing::HasSubstr("upcycle.nonfinite"));
}

TEST(UpcycleFolder, WritesNothingInADryRun) {
  const Upcycled made = upcycle(checkpoint_of("mistral_a"), {"--dry-run"});
  EXPECT_EQ(made.outcome.exit_code, 0);
  EXPECT_FALSE(fs::exists(made.folder));
  const Upcycled done = upcycle(checkpoint_of("mistral_a"), {}, "done");
  EXPECT_EQ(made.report["tensor_bytes"], done.report["tensor_bytes"]);
  EXPECT_EQ(made.report["files"].size(), 0u);
}

Upcycled again(const std::string& folder, const Words& flags) {
  Words words = {"upcycle", checkpoint_of("mistral_a"), "--out", folder, "--json"};
  words.insert(words.end(), flags.begin(), flags.end());
  Upcycled result{run_command(words), {}, folder};
  result.report = nlohmann::json::parse(result.outcome.out);
  return result;
}

TEST(UpcycleFolder, ReplacesEarlierResultsWithForce) {
  const Upcycled first = upcycle(checkpoint_of("mistral_a"), {});
  EXPECT_EQ(again(first.folder, {"--experts", "4"}).code(), "upcycle.out_exists");
  const Upcycled forced = again(first.folder, {"--experts", "4", "--force"});
  EXPECT_EQ(forced.outcome.exit_code, 0) << forced.outcome.out;
  EXPECT_EQ(names_in(first.folder),
            (std::set<std::string>{"config.json", "moec_upcycle.json", "model.safetensors"}));
  EXPECT_EQ(nlohmann::json::parse(read_file(first.folder + "/config.json"))["num_local_experts"],
            4);
  EXPECT_EQ(names_in(fs::path(first.folder).parent_path().string())
                .count("." + fs::path(first.folder).filename().string() + ".upcycling"),
            0u);
}

TEST(UpcycleFolder, KeepsUserChanges) {
  const Upcycled first = upcycle(checkpoint_of("mistral_a"), {});
  const auto expect_kept = [&](const std::string& name, const std::string& text,
                               const char* code = "upcycle.out_foreign") {
    write_file(first.folder + "/" + name, text);
    const Upcycled forced = again(first.folder, {"--experts", "4", "--force"});
    EXPECT_EQ(forced.code(), code) << forced.outcome.out;
    EXPECT_THAT(forced.outcome.out, testing::HasSubstr(name));
    EXPECT_TRUE(read_file(first.folder + "/" + name) == text) << name;
    EXPECT_TRUE(fs::exists(first.folder + "/config.json"));
  };
  const std::string weights = read_file(first.folder + "/model.safetensors");
  const std::string config = read_file(first.folder + "/config.json");
  expect_kept("notes.txt", "mine");
  fs::remove(first.folder + "/notes.txt");
  fs::create_directories(first.folder + "/runs");
  expect_kept("runs/events", "mine");
  fs::remove_all(first.folder + "/runs");
  expect_kept("model.safetensors", weights.substr(1) + "x", "output.changed");
  write_file(first.folder + "/model.safetensors", weights);
  expect_kept("config.json", config + " ", "output.changed");
  write_file(first.folder + "/config.json", config);
  EXPECT_EQ(again(first.folder, {"--experts", "4", "--force"}).outcome.exit_code, 0);
}

TEST(UpcycleFolder, KeepsForeignFiles) {
  const std::string folder = fresh_folder("foreign");
  write_file(folder + "/config.json", "{\"model_type\": \"mixtral\"}");
  EXPECT_EQ(again(folder, {"--force"}).code(), "upcycle.out_foreign");
  EXPECT_EQ(names_in(folder), (std::set<std::string>{"config.json"}));
  const std::string file = folder + "/config.json";
  EXPECT_EQ(again(file, {"--force"}).code(), "upcycle.out_foreign");
}

TEST(UpcycleFolder, AcceptsAnEmptyFolder) {
  const std::string folder = fresh_folder("empty");
  EXPECT_EQ(again(folder + "/", {}).outcome.exit_code, 0);
  EXPECT_TRUE(fs::exists(folder + "/config.json"));
}

// A killed run leaves a separate folder, which the next run removes.
TEST(UpcycleFolder, RemovesLeftoversOfAKilledRun) {
  const std::string folder = no_upcycled("out"),
                    rest = fs::path(folder).parent_path().string() + "/." +
                           fs::path(folder).filename().string() + ".upcycling";
  fs::create_directories(rest);
  write_file(rest + "/model.safetensors.part", "half");
  EXPECT_EQ(again(folder, {}).outcome.exit_code, 0);
  EXPECT_EQ(names_in(folder),
            (std::set<std::string>{"config.json", "moec_upcycle.json", "model.safetensors"}));
  EXPECT_FALSE(fs::exists(rest));
}

TEST(UpcycleFolder, LeavesNothingAfterAnOverflow) {
  const Upcycled made = upcycle(checkpoint_of("llama_b"), {"--granularity", "2", "--router",
                                                           "virtual:1e6", "--dtype", "f16"});
  EXPECT_EQ(made.outcome.exit_code, 2);
  EXPECT_EQ(made.code(), "upcycle.overflow") << made.outcome.out;
  EXPECT_FALSE(fs::exists(made.folder));
}

// The other commands of moec must be able to read the new checkpoint.
TEST(UpcycleFolder, WritesCheckpointsThatMoecReads) {
  const Upcycled made = upcycle(checkpoint_of("mistral_a"), {"--granularity", "2"});
  const std::string out = fresh_folder("export");
  expect_fine(run_command({"inspect", made.folder}));
  expect_fine(run_command({"plan", made.folder}));
  expect_fine(run_command({"export", made.folder, "--out", out, "--quiet", "--tokens", "1,4"}));
  expect_fine(run_command({"check", out}));
  expect_fine(run_command({"run", out, "--prompt-tokens", "1,2,3", "--max-tokens", "3"}));
}

}  // namespace
}  // namespace moec
