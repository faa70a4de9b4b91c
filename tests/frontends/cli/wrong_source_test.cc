// For the wrong kind of source, a command names the kind and the command that accepts it.
#include <gmock/gmock.h>

#include <functional>

#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

void expect_told(const Words& words, const std::string& what, const std::string& next) {
  const Outcome outcome = run_command(words);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.out;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[cli.wrong_source]"), HasSubstr(what),
                                 HasSubstr("next: "), HasSubstr(next)))
      << testing::PrintToString(words);
}

// Commands that read an exported folder.
std::vector<Words> commands_on_an_export(const std::string& path) {
  return {{"check", path},
          {"run", path, "--prompt", "x"},
          {"validate", path, "--golden", source_path("tests/golden/tinymoe")}};
}

TEST(WrongSource, RedirectsCheckpointsToOtherCommands) {
  const std::string checkpoint = checkpoint_of("tinymoe");
  for (const Words& words : commands_on_an_export(checkpoint))
    expect_told(words, "it is a checkpoint; this must be an exported folder",
                "moec export " + checkpoint + " --out OUT");
  for (const Words& words : commands_on_an_export(checkpoint + "/config.json"))
    expect_told(words, "it is the config of a checkpoint", "moec plan");
}

TEST(WrongSource, RedirectsExportsToOtherCommands) {
  const std::string out = fresh_folder("out"), other = fresh_folder("other");
  expect_fine(export_case("mixtral_a", out));
  for (const Words& words : {Words{"export", out, "--out", other}, Words{"plan", out}})
    expect_told(words, "it is an exported folder", "moec check " + out);
  EXPECT_TRUE(fs::is_empty(other));
  const std::string shard = out + "/moe/L00.t1.onnx";
  for (const Words& words : commands_on_an_export(shard))
    expect_told(words, "it is a single shard", "moec inspect " + shard);
  for (const Words& words : commands_on_an_export(out + "/manifest.json"))
    expect_told(words, "it is the manifest of an export", "pass the exported folder: " + out);
  expect_told({"validate", out, "--golden", out}, "it is an exported folder", "moec check");
}

TEST(WrongSource, ExplainsPublishedNames) {
  std::vector<Words> all = commands_on_an_export("qwen3-30b-a3b");
  all.push_back({"export", "qwen3-30b-a3b", "--out", fresh_folder("out")});
  all.push_back({"inspect", "qwen3-30b-a3b"});
  for (const Words& words : all)
    expect_told(words, "the name of a published model",
                "run moec plan qwen3-30b-a3b, or download Qwen/Qwen3-30B-A3B");
  expect_fine(run_command({"plan", "qwen3-30b-a3b"}));
}

TEST(WrongSource, ExplainsWeightFiles) {
  const CheckpointCopy copy;
  const std::string weights = copy.path("model.safetensors");
  const std::string gguf = copy.path("model.gguf"), unnamed = copy.path("model");
  copy.write("model.gguf", "");
  copy.write("model", "GGUF\x03");
  std::vector<Words> all = commands_on_an_export(weights);
  all.push_back({"export", weights, "--out", fresh_folder("out")});
  all.push_back({"inspect", weights});
  all.push_back({"plan", weights});
  for (const Words& words : all)
    expect_told(
        words, "it is a weight file of a checkpoint",
        "pass the folder with its config.json to moec inspect, plan or export: " + copy.folder());
  for (const std::string& file : {gguf, unnamed}) {
    for (const Words& words : commands_on_an_export(file))
      expect_told(words, "it is a GGUF file", "compile it with moec export " + file + " --out OUT");
    for (const Words& words : {Words{"inspect", file}, Words{"plan", file},
                               Words{"export", file, "--out", fresh_folder("out")}})
      EXPECT_THAT(run_command(words).err, HasSubstr("gguf.too_short"));
    const std::string family = source_path("models/families/mixtral.json");
    for (const Words& words : {Words{"family", "check", family, "--checkpoint", file},
                               Words{"plan", file, "--family-file", family}})
      EXPECT_THAT(run_command(words).err, HasSubstr("gguf.family_file"));
  }
}

// Commands that read a checkpoint.
std::vector<Words> commands_on_a_checkpoint(const std::string& path) {
  return {{"plan", path}, {"export", path, "--out", fresh_folder("other")}};
}

TEST(WrongSource, ExplainsFoldersOfSeveralExports) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, {"--target", "onnx,ane", "--dtype", "f16"}));
  for (const Words& words : commands_on_a_checkpoint(out))
    expect_told(words, "the folder contains exports for several targets",
                "pass one of them: " + out + "/ane or " + out + "/onnx");
}

TEST(WrongSource, ExplainsUnfinishedExports) {
  const std::string out = fresh_folder("out");
  write_file(out + "/export.journal", "");
  for (const Words& words : commands_on_a_checkpoint(out))
    expect_told(words, "the export in this folder is not finished", "run the moec export command");
}

// A model repository may contain an unrelated manifest.json.
TEST(WrongSource, AcceptsCheckpointsWithAForeignManifest) {
  const CheckpointCopy copy;
  copy.write("manifest.json", "{}");
  expect_fine(run_command({"export", copy.folder(), "--out", fresh_folder("out"), "--quiet"}));
  expect_fine(run_command({"plan", copy.folder()}));
}

TEST(WrongSource, ExplainsOtherFilesForOpt) {
  const CheckpointCopy copy;
  expect_told({"opt", copy.path("config.json")}, "it is the config of a checkpoint", "moec plan");
  expect_told({"opt", copy.folder()}, "it is a checkpoint", "moec export");
  expect_told({"family", "check", copy.path("config.json"), "--config", copy.folder()},
              "this must be a family descriptor", "moec plan");
}

}  // namespace
}  // namespace moec
