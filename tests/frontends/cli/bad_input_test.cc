// Each kind of bad input results in exit code 2 (1 if a check fails), a stable error code, and a
// message that names the file or tensor.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <set>

#include "backends/manifest/manifest_file.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/manifest_forms.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Json = CheckpointCopy::Json;

constexpr const char* kGate0 = "model.layers.0.block_sparse_moe.gate.weight";

Outcome export_folder(const std::string& source) {
  return run_command({"export", source, "--out", fresh_folder("out"), "--quiet"});
}

struct Damage {
  const char* name;
  std::function<void(const CheckpointCopy&)> apply;
  std::vector<std::string> message;  // the code, then other required substrings
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for this name
void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

class BadCheckpoint : public testing::TestWithParam<Damage> {};

TEST_P(BadCheckpoint, IsRejectedWithItsCode) {
  const CheckpointCopy copy;
  GetParam().apply(copy);
  const Outcome outcome = export_folder(copy.folder());
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.err;
  for (const std::string& part : GetParam().message) EXPECT_THAT(outcome.err, HasSubstr(part));
  EXPECT_THAT(outcome.err, HasSubstr("next: "));
  EXPECT_FALSE(fs::exists(fresh_folder("out") + "/manifest.json"));
}

void rename_tensor(Json& header, const std::string& from, const std::string& to) {
  header[to] = header.at(from);
  header.erase(from);
}

// Damage to a tensor: its header entry or its values.
std::vector<Damage> tensor_damages() {
  return {
      {"missing_tensor",
       [](const CheckpointCopy& c) {
         c.edit_header([](Json& h) { rename_tensor(h, kGate0, "model.extra"); });
       },
       {"error[hf.tensor.missing]", kGate0}},
      {"wrong_shape",
       [](const CheckpointCopy& c) {
         c.edit_header([](Json& h) { h[kGate0]["shape"] = {48, 5}; });
       },
       {"error[hf.tensor.shape]", kGate0, "[5,48]", "[48,5]"}},
      {"wrong_dtype",
       [](const CheckpointCopy& c) { c.edit_header([](Json& h) { h[kGate0]["dtype"] = "I16"; }); },
       {"error[hf.tensor.dtype]", kGate0, "I16"}},
      {"nan_in_router",
       [](const CheckpointCopy& c) { c.overwrite(kGate0, std::string("\xc0\x7f", 2)); },
       {"error[export.nonfinite_weight]", kGate0}},
      {"infinity_in_norm",
       [](const CheckpointCopy& c) {
         c.overwrite("model.norm.weight", std::string("\x80\x7f", 2));
       },
       {"error[export.nonfinite_weight]", "model.norm.weight"}},
  };
}

// Damage to weight files and their headers.
std::vector<Damage> file_damages() {
  return {
      {"truncated_file",
       [](const CheckpointCopy& c) {
         fs::resize_file(c.path("model.safetensors"),
                         fs::file_size(c.path("model.safetensors")) - 1);
       },
       {"error[safetensors.truncated]", "model.safetensors"}},
      {"overlapping_offsets",
       [](const CheckpointCopy& c) {
         c.edit_header(
             [](Json& h) { h[kGate0]["data_offsets"] = h["model.norm.weight"]["data_offsets"]; });
       },
       {"error[safetensors.", "model.safetensors"}},
      {"offsets_out_of_range",
       [](const CheckpointCopy& c) {
         c.edit_header([](Json& h) {
           h["model.norm.weight"]["data_offsets"] = {1 << 30, (1 << 30) + 96};
         });
       },
       {"error[safetensors.", "model.safetensors"}},
      {"header_too_long",
       [](const CheckpointCopy& c) {
         std::string file = c.read("model.safetensors");
         const uint64_t huge = uint64_t{1} << 40;
         std::memcpy(file.data(), &huge, sizeof huge);
         c.write("model.safetensors", file);
       },
       {"error[safetensors.header_too_long]", "model.safetensors"}},
      {"duplicate_key",
       [](const CheckpointCopy& c) {
         c.edit_header_text([](const std::string& text) {
           Json header = Json::parse(text);
           return "{\"" + std::string(kGate0) + "\":" + header.at(kGate0).dump() + "," +
                  text.substr(1);
         });
       },
       {"error[json.duplicate_key]", kGate0}},
      {"no_weights",
       [](const CheckpointCopy& c) { fs::remove(c.path("model.safetensors")); },
       {"error[hf.no_weights]"}},
      {"index_without_files",
       [](const CheckpointCopy& c) {
         fs::remove(c.path("model.safetensors"));
         c.write("model.safetensors.index.json", "{}");
       },
       {"error[index.weight_map]", "model.safetensors.index.json"}},
  };
}

std::vector<Damage> config_damages() {
  return {
      {"config_without_key",
       [](const CheckpointCopy& c) { c.edit_config([](Json& j) { j.erase("hidden_size"); }); },
       {"error[hf.config.range]", "\"hidden_size\" is missing and defaults to 4096"}},
      {"config_with_unknown_key",
       [](const CheckpointCopy& c) {
         c.edit_config([](Json& j) { j["residual_multiplier"] = 0.5; });
       },
       {"error[hf.config.unknown_key]", "residual_multiplier"}},
      {"config_absent",
       [](const CheckpointCopy& c) { fs::remove(c.path("config.json")); },
       {"config.json"}},
      {"config_is_a_list",
       [](const CheckpointCopy& c) { c.write("config.json", "[]"); },
       {"error[hf.config.not_object]", "config.json"}},
      {"config_nested_too_deeply",
       [](const CheckpointCopy& c) { c.write("config.json", std::string(100'000, '[')); },
       {"error[json.depth]", "config.json"}},
      {"config_not_json",
       [](const CheckpointCopy& c) { c.write("config.json", "{\"model_type\": "); },
       {"error[json.", "config.json"}},
      {"unknown_family",
       [](const CheckpointCopy& c) { c.edit_config([](Json& j) { j["model_type"] = "mixtrel"; }); },
       {"error[hf.family.unknown]", "mixtral", "olmoe", "qwen2_moe", "qwen3_moe"}},
      {"unknown_scoring_function",
       [](const CheckpointCopy& c) {
         c.edit_config([](Json& j) { j["scoring_func"] = "sparsemax"; });
       },
       {"error[hf.config.unknown_score]", "sparsemax", "known: softmax, sigmoid"}},
      {"top_k_above_experts",
       [](const CheckpointCopy& c) {
         c.edit_config([](Json& j) { j["num_experts_per_tok"] = 6; });
       },
       {"error[model.top_k]"}},
  };
}

std::vector<Damage> damages() {
  std::vector<Damage> all = tensor_damages();
  for (const auto& more : {file_damages(), config_damages()})
    all.insert(all.end(), more.begin(), more.end());
  return all;
}

INSTANTIATE_TEST_SUITE_P(BadInput, BadCheckpoint, testing::ValuesIn(damages()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BadInput, RejectsIndexPathsOutsideTheFolder) {
  const CheckpointCopy copy("qwen3_moe_a");
  Json index = Json::parse(copy.read("model.safetensors.index.json"));
  index["weight_map"]["model.norm.weight"] = "../x.safetensors";
  copy.write("model.safetensors.index.json", index.dump());
  const Outcome outcome = export_folder(copy.folder());
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error[index.file_name]"), HasSubstr("../x.safetensors")));
}

TEST(BadInput, RejectsIndexesThatListMissingFiles) {
  const CheckpointCopy copy("qwen3_moe_a");
  fs::remove(copy.path("model-00002-of-00002.safetensors"));
  const Outcome outcome = export_folder(copy.folder());
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[index.absent_file]"),
                                 HasSubstr("model-00002-of-00002.safetensors")));
}

TEST(BadInput, KeepsForeignFilesWithForce) {
  const std::string out = fresh_folder("out");
  fs::create_directory(out + "/moe");
  const std::vector<std::string> mine = {"mine.txt", "vocab.txt", "moe/L.txt", "moe/data.onnx"};
  for (const std::string& name : mine) std::ofstream(out + "/" + name) << "keep";
  const Outcome refused =
      run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("error[export.out_not_empty] " + out));
  const Outcome forced =
      run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet", "--force"});
  EXPECT_EQ(forced.exit_code, kExitFine) << forced.err;
  for (const std::string& name : mine) EXPECT_TRUE(fs::exists(out + "/" + name)) << name;
}

TEST(BadInput, ReplacesTheEarlierExportWithForce) {
  const std::string out = fresh_folder("out"), alone = fresh_folder("alone");
  const std::string source = checkpoint_of("mixtral_a");
  expect_fine(run_command(
      {"export", source, "--out", out, "--quiet", "--tokens", "1,8", "--layers-per-shard", "1"}));
  expect_fine(run_command({"export", source, "--out", out, "--quiet", "--force"}));
  expect_fine(run_command({"export", source, "--out", alone, "--quiet"}));
  const auto names = [](const std::string& folder) {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      found.insert(fs::relative(entry.path(), folder).string());
    return found;
  };
  EXPECT_EQ(names(out), names(alone));
}

// Flags that the passes or the emitter reject fail before the folder is created.
class FlagsOfNoTarget : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(FlagsOfNoTarget, AreRejectedBeforeCreatingTheFolder) {
  const std::string out = fresh_folder("parent") + "/out";
  const std::string reproducers = fresh_folder("reproducers");
  std::vector<std::string> command = {
      "export", checkpoint_of("mixtral_a"), "--out", out, "--quiet", "--dump-dir", reproducers};
  command.insert(command.end(), GetParam().begin(), GetParam().end());
  const Outcome outcome = run_command(command);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("error["));
  EXPECT_FALSE(fs::exists(out));
}

// Without a requested dump folder, reproducers must not appear in the current folder.
TEST(BadInput, KeepsTheCurrentFolderClean) {
  const std::string out = fresh_folder("parent") + "/out", temporary = fresh_folder("temporary");
  const fs::path before = fs::current_path(), working = fresh_folder("working");
  const char* const tmpdir = std::getenv("TMPDIR");
  const std::string tmpdir_before = tmpdir == nullptr ? "" : tmpdir;
  fs::create_directories(temporary);
  fs::create_directories(working);
  fs::current_path(working);
  setenv("TMPDIR", temporary.c_str(), 1);
  const Outcome outcome = run_command({"export", checkpoint_of("mixtral_a"), "--out", out,
                                       "--quiet", "--target", "onnx,ane", "--routing", "topk"});
  fs::current_path(before);
  if (tmpdir == nullptr)
    unsetenv("TMPDIR");
  else
    setenv("TMPDIR", tmpdir_before.c_str(), 1);
  EXPECT_EQ(outcome.exit_code, kExitBadInput) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("saved as " + temporary + "/moec-"));
  EXPECT_TRUE(fs::is_empty(working));
}

INSTANTIATE_TEST_SUITE_P(
    BadInput, FlagsOfNoTarget,
    testing::Values(std::vector<std::string>{"--target", "ane", "--routing", "topk"},
                    std::vector<std::string>{"--target", "ane", "--dtype", "f32"},
                    std::vector<std::string>{"--target", "ane", "--spec-version", "6"},
                    std::vector<std::string>{"--target", "ane", "--widths", "range", "--tokens",
                                             "1"},
                    std::vector<std::string>{"--target", "ane", "--kv", "io", "--context", "17000"},
                    std::vector<std::string>{"--bisect", "3"},
                    std::vector<std::string>{"--dump-after", "bogus"}));

TEST(BadInput, RejectsTheCheckpointAsOutput) {
  const CheckpointCopy copy;
  const Outcome outcome =
      run_command({"export", copy.folder(), "--out", copy.folder(), "--quiet", "--force"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("error[export.out_is_source]"));
  EXPECT_TRUE(fs::exists(copy.path("model.safetensors")));
}

TEST(BadInput, RejectsAFileAsParentFolder) {
  const std::string file = fresh_folder("parent") + "/file";
  std::ofstream(file) << "x";
  const Outcome outcome =
      run_command({"export", checkpoint_of("mixtral_a"), "--out", file + "/out", "--quiet"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("error[emit.bad_folder]"));
}

// Exports mixtral_a in a child process and exits with the command's exit code.
[[noreturn]] void export_and_exit(const std::string& out) {
  const std::string source = checkpoint_of("mixtral_a");
  const std::vector<const char*> argv = {"moec",  "export",    source.c_str(),
                                         "--out", out.c_str(), "--quiet"};
  std::_Exit(run_cli(static_cast<int>(argv.size()), argv.data()));
}

// Root ignores permissions, so the child drops that privilege first.
[[noreturn]] void export_without_rights(const std::string& out) {
  if (geteuid() == 0 && setuid(65534) != 0) std::_Exit(99);
  export_and_exit(out);
}

// A file size limit simulates a full disk; in both cases, a write fails halfway.
[[noreturn]] void export_with_little_room(const std::string& out) {
  signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{16384, 16384};
  if (setrlimit(RLIMIT_FSIZE, &limit) != 0) std::_Exit(99);
  export_and_exit(out);
}

TEST(BadInput, ReportsAnUnwritableParentFolder) {
  const std::string parent = fresh_folder("parent");
  fs::permissions(parent, fs::perms::owner_read | fs::perms::owner_exec | fs::perms::group_read |
                              fs::perms::group_exec | fs::perms::others_read |
                              fs::perms::others_exec);
  EXPECT_EXIT(export_without_rights(parent + "/out"), testing::ExitedWithCode(kExitBadInput),
              "export.no_permission");
}

TEST(BadInput, RejectsADanglingOutputLink) {
  const std::string parent = fresh_folder("parent");
  fs::create_symlink("gone", parent + "/out");
  const Outcome outcome =
      run_command({"export", checkpoint_of("mixtral_a"), "--out", parent + "/out", "--quiet"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[export.out_not_folder]"),
                                 HasSubstr("a link to a folder that does not exist")));
  EXPECT_FALSE(fs::exists(parent + "/gone"));
}

TEST(BadInput, LeavesNoFinalFilesWithoutSpace) {
  const std::string out = fresh_folder("out");
  EXPECT_EXIT(export_with_little_room(out), testing::ExitedWithCode(kExitBadInput),
              "emit.no_space");
  EXPECT_FALSE(fs::exists(out + "/manifest.json"));
  EXPECT_FALSE(fs::exists(out + "/attn/L00.data"));
}

TEST(BadInput, RejectsGoldensOfAnotherModel) {
  const std::string out = fresh_folder("out");
  ASSERT_EQ(run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  const Outcome outcome =
      run_command({"validate", out, "--golden", source_path("tests/golden/mixtral_b")});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("error[golden.other_model]"));
}

TEST(BadInput, CheckFailsForChangedShards) {
  const std::string out = fresh_folder("out");
  ASSERT_EQ(run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  std::fstream(out + "/moe/L01.data", std::ios::in | std::ios::out | std::ios::binary) << "x";
  const Outcome outcome = run_command({"check", out});
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("error[manifest.digest_changed]"),
                                 HasSubstr("moe/L01.data"), HasSubstr("FELL SHORT")));
}

// The check also reads files that no shard needs, and compares manifest.json with manifest.bin.
TEST(BadInput, CheckFailsAfterBitFlips) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, {"--target", "ane", "--compat", "ane-book"}));
  for (const auto& [name, bytes] : all_bytes(out)) {
    if (name == "manifest.json") continue;
    std::string changed = bytes;
    changed[bytes.size() / 3] ^= 4;
    std::ofstream(out + "/" + name, std::ios::binary) << changed;
    EXPECT_NE(run_command({"check", out}).exit_code, kExitFine) << name;
    std::ofstream(out + "/" + name, std::ios::binary) << bytes;
  }
  expect_fine(run_command({"check", out}));
}

TEST(BadInput, CheckRequiresTheNameOfBin) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out, {}));
  Json manifest = Json::parse(std::ifstream(out + "/manifest.json"));
  manifest.erase("binary");
  std::ofstream(out + "/manifest.json") << manifest.dump();
  const Outcome outcome = run_command({"check", out});
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, HasSubstr("error[manifest.no_binary] " + out + "/manifest.json"));
}

TEST(BadInput, CheckFailsForChangedDigests) {
  const std::string out = fresh_folder("out");
  ASSERT_EQ(run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  Json manifest = Json::parse(std::ifstream(out + "/manifest.json"));
  manifest["embedding"]["file"]["digest"] = std::string(32, '0');
  std::ofstream(out + "/manifest.json") << manifest.dump();
  const Outcome disagrees = run_command({"check", out});
  EXPECT_EQ(disagrees.exit_code, kExitBadInput);
  EXPECT_THAT(disagrees.err, HasSubstr("error[manifest.disagree]"));
  write_both_forms(from_json(manifest.dump()).value(), out);
  const Outcome outcome = run_command({"check", out});
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("error[manifest.digest_changed]"), HasSubstr("embed.bin")));
}

TEST(BadInput, ChecksBothFormsOfTheManifest) {
  const std::string out = fresh_folder("out"), binary = out + "/manifest.bin";
  ASSERT_EQ(run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  fs::resize_file(binary, fs::file_size(binary) / 2);
  const Outcome damaged = run_command({"check", out});
  EXPECT_EQ(damaged.exit_code, kExitBadInput);
  EXPECT_THAT(damaged.err, HasSubstr("error[manifest.corrupt] " + binary));
  fs::remove(binary);
  const Outcome missing = run_command({"check", out, "--no-digests"});
  EXPECT_EQ(missing.exit_code, kExitFellShort);
  EXPECT_THAT(missing.out,
              AllOf(HasSubstr("error[manifest.file_missing] " + binary), HasSubstr("FELL SHORT")));
}

TEST(BadInput, RejectsUnknownManifestFields) {
  const std::string out = fresh_folder("out");
  ASSERT_EQ(run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  Json manifest = Json::parse(std::ifstream(out + "/manifest.json"));
  manifest["surprise"] = 1;
  std::ofstream(out + "/manifest.json") << manifest.dump(1);
  const Outcome outcome = run_command({"check", out});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("error[manifest.unknown_field]"), HasSubstr("surprise")));
}

TEST(BadInput, ReportsAMissingManifest) {
  const Outcome outcome = run_command({"check", fresh_folder("empty")});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr("manifest.json"));
}

TEST(BadInput, RejectsMalformedIr) {
  const std::string file = fresh_folder("ir") + "/bad.ir";
  std::ofstream(file) << "shard s placed {\n  input %x : f32[1,2]\n  %y = expp %x : f32[1,2]\n}\n";
  const Outcome outcome = run_command({"opt", file});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("error[text."), HasSubstr(file + ":3:8"),
                                 HasSubstr("expp"), HasSubstr("exp")));
}

TEST(BadInput, NamesTheFileInOptErrors) {
  const std::string file = fresh_folder("ir") + "/bad.ir";
  const std::string shard = "shard s static {\n  input %x : f32[1,2]\n  output y = %x\n}\n";
  for (const char* line : {"magic", "lower_router magic=1"}) {
    std::ofstream(file) << "// run: " << line << "\n" << shard;
    const Outcome outcome = run_command({"opt", file});
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("] " + file + ": "), HasSubstr("magic")));
  }
  // lower_router requires a shard in another form.
  std::ofstream(file) << "// run: lower_router\n" << shard;
  EXPECT_THAT(run_command({"opt", file}).err, HasSubstr("] " + file + ": "));
}

TEST(BadInput, RejectsInvalidPrompts) {
  const std::string out = fresh_folder("out");
  ASSERT_EQ(run_command({"export", checkpoint_of("tinymoe"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  EXPECT_THAT(run_command({"run", out, "--prompt-file", testing::TempDir()}).err,
              HasSubstr("not a regular file"));
  const Outcome token = run_command({"run", out, "--prompt-tokens", "7,300"});
  EXPECT_EQ(token.out, "");
  EXPECT_THAT(token.err,
              AllOf(HasSubstr("error[run.token]: --prompt-tokens 300"), HasSubstr("0 to 255")));
  EXPECT_THAT(run_command({"run", out, "--prompt", "a", "--stop-token", "256"}).err,
              HasSubstr("error[run.token]: --stop-token 256"));
}

TEST(BadInput, RejectsAFolderAsMeasuredPlacement) {
  const std::string out = fresh_folder("out");
  ASSERT_EQ(run_command({"export", checkpoint_of("mixtral_a"), "--out", out, "--quiet"}).exit_code,
            kExitFine);
  for (const std::string& path : {testing::TempDir(), std::string("/nowhere")})
    EXPECT_THAT(run_command({"check", out, "--measured", path}).err,
                HasSubstr("error[measured.open] " + path));
}

TEST(BadInput, RejectsTooLittleMemoryPerJob) {
  const Outcome outcome = run_command(
      {"export", checkpoint_of("mixtral_a"), "--out", fresh_folder("out"), "--memory", "1"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("an export of 1 shard at a time needs"),
                                 testing::Not(HasSubstr("fewer jobs"))));
}

// A number without a unit is in MiB.
TEST(BadInput, ParsesMemorySizes) {
  const auto export_with = [](const char* memory) {
    return run_command(
        {"export", checkpoint_of("mixtral_a"), "--out", fresh_folder("out"), "--memory", memory});
  };
  for (const char* enough : {"96", "96MiB", "0.1 GB", "1e8B"})
    EXPECT_EQ(export_with(enough).exit_code, kExitFine) << enough;
  for (const char* little : {"1", "1MiB", "1000000B"})
    EXPECT_THAT(export_with(little).err, HasSubstr("error[weights.over_budget]")) << little;
  for (const char* none : {"0", "-1", "64MX", "", "nan"})
    EXPECT_THAT(export_with(none).err, HasSubstr("error[cli.bytes]")) << none;
}

// The suggested budget is sufficient and not far above the requirement.
TEST(BadInput, SuggestsASufficientBudget) {
  const std::string source = checkpoint_of("tinymoe");
  const Outcome refused = run_command({"plan", source, "--max-shard-mb", "moe=0.001"});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  const std::string said = "raise the budget to at least ";
  ASSERT_THAT(refused.err, HasSubstr(said));
  const double least = std::stod(refused.err.substr(refused.err.find(said) + said.size()));
  EXPECT_LT(least, 1);
  auto with = [&](double budget) {
    return run_command({"plan", source, "--max-shard-mb", "moe=" + std::to_string(budget)});
  };
  EXPECT_THAT(with(least).err, testing::Not(HasSubstr("plan.budget")));
  EXPECT_THAT(with(least - 0.001).err, HasSubstr("plan.budget"));
}

TEST(BadInput, ExitsWith2AfterUsageErrors) {
  EXPECT_EQ(run_command({}).exit_code, kExitBadInput);
  EXPECT_EQ(run_command({"exprot"}).exit_code, kExitBadInput);
  EXPECT_EQ(run_command({"export", checkpoint_of("mixtral_a")}).exit_code, kExitBadInput);
  const Outcome routing = run_command(
      {"export", checkpoint_of("mixtral_a"), "--out", fresh_folder("out"), "--routing", "magic"});
  EXPECT_EQ(routing.exit_code, kExitBadInput);
  EXPECT_THAT(routing.err, HasSubstr("iterate"));
}

TEST(BadInput, ReportsDiagnosticsAsJson) {
  const Outcome outcome = run_command({"check", fresh_folder("empty"), "--json"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_THAT(json["diagnostics"][0]["code"].get<std::string>(), HasSubstr("manifest."));
}

}  // namespace
}  // namespace moec
