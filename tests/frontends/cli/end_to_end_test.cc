// Runs export, check, validate and run on golden checkpoints.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "backends/cpu/cpu_engine.h"
#include "backends/files/digest.h"
#include "backends/formats/read_shard.h"
#include "backends/runtime/session/session.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"
#include "tests/frontends/cli/read_json.h"
#include "tests/golden_cases.h"

namespace moec {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

// The logits of the engine `cpu` differ from the reference only in the order of sums, so the most
// likely token is the same. Runs one step of several tokens, then two steps of one token.
void expect_engines_agree(const std::string& out) {
  Session reference = Session::open(out, read_shard).value();
  if (reference.manifest().tagging) return;
  Session cpu = Session::open(out, read_shard, {.engine = cpu_engine(read_shard, 2)}).value();
  for (const std::vector<int64_t>& tokens :
       {std::vector<int64_t>{3, 1, 4, 1, 5, 9, 2, 6}, {5}, {3}}) {
    const auto wanted = reference.feed(tokens).value().data, found = cpu.feed(tokens).value().data;
    ASSERT_EQ(wanted.size(), found.size());
    double error = 0, norm = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      error += std::pow(double{found[i]} - double{wanted[i]}, 2);
      norm += std::pow(double{wanted[i]}, 2);
    }
    EXPECT_LE(std::sqrt(error), 1e-5 * std::sqrt(norm));
  }
}

// tests/peers/test_validate.py covers all golden cases with the optimized build.
class GoldenCase : public testing::TestWithParam<const char*> {};

TEST_P(GoldenCase, ExportsChecksAndValidates) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case(GetParam(), out, {"--tokens", "1,16"}));
  expect_fine(run_command({"check", out}));
  expect_fine(validate_case(GetParam(), out));
  expect_engines_agree(out);
}

INSTANTIATE_TEST_SUITE_P(EndToEnd, GoldenCase, testing::ValuesIn(first_cases()),
                         [](const auto& info) { return std::string(info.param); });

class FormVariant : public testing::TestWithParam<Variant> {};

// Every exact form matches the reference. qwen2_moe_b has shared experts, a dense layer and a tied
// head; zaya_b has token histories and router states.
TEST_P(FormVariant, PassesCheckAndValidate) {
  for (const char* golden_case : {"qwen2_moe_b", "zaya_b"}) {
    const std::string out = fresh_folder(golden_case);
    Words flags = GetParam().flags;
    flags.insert(flags.end(), {"--tokens", "1,5,32"});
    expect_fine(export_case(golden_case, out, flags));
    expect_fine(run_command({"check", out}));
    expect_fine(validate_case(golden_case, out));
  }
}

INSTANTIATE_TEST_SUITE_P(
    EndToEnd, FormVariant,
    testing::Values(Variant{"matmul", {"--form", "matmul"}}, Variant{"bank", {"--experts", "bank"}},
                    Variant{"bank_matmul", {"--experts", "bank", "--form", "matmul"}},
                    Variant{"bank_split", {"--experts", "bank", "--bank-channel-limit", "64"}},
                    Variant{"iterate", {"--routing", "iterate"}},
                    Variant{"topk", {"--routing", "topk"}},
                    Variant{"host_groups", {"--routing", "host", "--experts-per-shard", "2"}},
                    Variant{"host_matmul", {"--routing", "host", "--form", "matmul"}},
                    Variant{"per_head", {"--attention", "per_head"}},
                    Variant{"per_head_matmul", {"--attention", "per_head", "--form", "matmul"}},
                    Variant{"tree", {"--sum", "tree"}}, Variant{"bc1s", {"--layout", "bc1s"}},
                    Variant{"head_slices", {"--head-slices", "3"}},
                    Variant{"whole_layers", {"--layers-per-shard", "2"}},
                    Variant{"f16", {"--dtype", "f16"}}, Variant{"litert", {"--target", "litert"}},
                    Variant{"litert_bank", {"--target", "litert", "--experts", "bank"}},
                    Variant{"litert_topk", {"--target", "litert", "--routing", "topk"}},
                    Variant{
                        "litert_groups",
                        {"--target", "litert", "--routing", "host", "--experts-per-shard", "2"}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(EndToEnd, PrintsDecimalSizesOnly) {
  const std::string out = fresh_folder("out"), source = checkpoint_of("tinymoe");
  for (const Words& words : {Words{"plan", source}, Words{"inspect", source},
                             Words{"export", source, "--target", "onnx", "--out", out},
                             Words{"inspect", out}, Words{"check", out}}) {
    const Outcome outcome = run_command(words);
    expect_fine(outcome);
    EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("iB")));
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(" MB"));
  }
}

// Caches keys and values per head instead of the latent, for both targets. deepseek_v2_a has latent
// queries, deepseek_v3_b has none.
TEST(EndToEnd, ExpandsLatentAttention) {
  for (const char* golden_case : {"deepseek_v2_a", "deepseek_v3_b"})
    for (const char* target : {"onnx", "ane"}) {
      const std::string out = fresh_folder(std::string(golden_case) + "." + target);
      expect_fine(export_case(golden_case, out,
                              {"--mla", "expanded", "--target", target, "--tokens", "1,16"}));
      expect_fine(run_command({"check", out}));
      const bool half = std::string(target) == "ane";
      expect_fine(validate_case(golden_case, out, {"--precision", half ? "f16" : "f32"}));
    }
}

TEST(EndToEnd, RejectsExpandedFormWithoutLatentAttention) {
  const std::string out = fresh_folder("out");
  const Outcome refused = export_case("mixtral_a", out, {"--mla", "expanded"});
  EXPECT_EQ(refused.exit_code, kExitBadInput);
  EXPECT_THAT(refused.err, HasSubstr("mixtral has no latent attention"));
  EXPECT_FALSE(fs::exists(out + "/manifest.json"));
}

TEST(EndToEnd, MarksFullSoftmaxInexact) {
  const std::string out = fresh_folder("out");
  const Outcome exported = export_case("tinymoe", out, {"--routing", "full_softmax"});
  expect_fine(exported);
  EXPECT_THAT(exported.err, HasSubstr("routing.inexact"));
  EXPECT_THAT(run_command({"check", out}).out, HasSubstr("INEXACT"));
  const Outcome validated = validate_case("tinymoe", out);
  EXPECT_EQ(validated.exit_code, kExitFellShort);
  EXPECT_THAT(validated.out, HasSubstr("FELL SHORT"));
}

TEST(EndToEnd, WarnsWhenLongRopeFactorsApply) {
  const std::string out = fresh_folder("out");
  const Outcome far = export_case("phimoe_a", out, {"--context", "13", "--tokens", "1"});
  expect_fine(far);
  EXPECT_THAT(far.err, HasSubstr("warning[export.long_factors]"));
  const Outcome near =
      export_case("phimoe_a", out, {"--context", "12", "--tokens", "1", "--force"});
  expect_fine(near);
  EXPECT_THAT(near.err, Not(HasSubstr("export.long_factors")));
}

TEST(EndToEnd, WritesEquallyForAnyJobCount) {
  const std::string one = fresh_folder("one"), four = fresh_folder("four");
  expect_fine(export_case("qwen3_moe_a", one, {"--tokens", "1,8", "--jobs", "1"}));
  expect_fine(export_case("qwen3_moe_a", four, {"--tokens", "1,8", "--jobs", "4"}));
  const auto first = all_bytes(one);
  EXPECT_GT(first.size(), 8u);
  EXPECT_EQ(first, all_bytes(four));
  expect_fine(export_case("qwen3_moe_a", four, {"--tokens", "1,8", "--force"}));
  EXPECT_EQ(first, all_bytes(four));
}

TEST(EndToEnd, RecordsSha256OnRequest) {
  for (const char* target : {"onnx", "ane"}) {
    const std::string out = fresh_folder(target);
    expect_fine(export_case("tinymoe", out, {"--digest", "sha256", "--target", target}));
    const nlohmann::json manifest = read_json(out + "/manifest.json").flatten();
    size_t files = 0;
    for (const auto& [key, value] : manifest.items()) {
      const size_t end = key.rfind("/sha256");
      if (end == std::string::npos) continue;
      const std::string path = manifest.at(key.substr(0, end) + "/path");
      EXPECT_EQ(value, digest_file(out + "/" + path, true).value().sha256) << path;
      ++files;
    }
    EXPECT_GT(files, 8u);
    expect_fine(run_command({"check", out}));
  }
}

TEST(EndToEnd, GeneratesTheGoldenText) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,16"}));
  const nlohmann::json golden = read_json(source_path("tests/golden/tinymoe/golden.json"));
  std::string prompt;
  for (int byte : golden["greedy"]["prompt"]) prompt += static_cast<char>(byte);
  const Outcome run = run_command({"run", out, "--prompt", prompt, "-n", "12", "--json"});
  expect_fine(run);
  const nlohmann::json tokens = nlohmann::json::parse(run.out)["tokens"];
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(tokens[i], golden["greedy"]["tokens"][i]);
}

// Declares a token of the golden greedy text as the end of text.
TEST(EndToEnd, StopsAtTheEndOfText) {
  const CheckpointCopy copy("tinymoe");
  const std::string out = fresh_folder("out");
  const nlohmann::json golden =
      read_json(source_path("tests/golden/tinymoe/golden.json"))["greedy"];
  const std::vector<int> tokens = golden["tokens"];
  const int eos = tokens[6];
  const auto until = std::find(tokens.begin(), tokens.end(), eos) - tokens.begin();
  std::string prompt;
  for (const int byte : golden["prompt"]) prompt += static_cast<char>(byte);
  copy.edit_config([&](CheckpointCopy::Json& config) { config["eos_token_id"] = eos; });
  expect_fine(run_command({"export", copy.folder(), "--out", out, "--quiet"}));
  EXPECT_EQ(read_json(out + "/manifest.json")["model"]["eos_tokens"], nlohmann::json{eos});
  const Words words = {"run", out, "--prompt", prompt, "-n", "12"};
  const auto report = [&](const Words& more) {
    Words all = words;
    all.insert(all.end(), more.begin(), more.end());
    all.emplace_back("--json");
    const Outcome outcome = run_command(all);
    expect_fine(outcome);
    return nlohmann::json::parse(outcome.out);
  };
  const nlohmann::json stopped = report({});
  EXPECT_EQ(stopped["tokens"], std::vector<int>(tokens.begin(), tokens.begin() + until));
  EXPECT_EQ(stopped["stopped_by"], "eos_token");
  EXPECT_EQ(stopped["stopping_token"], eos);
  EXPECT_THAT(run_command(words).err,
              HasSubstr(fmt::format("stopped at the end-of-text token {};", eos)));
  const nlohmann::json ignored = report({"--ignore-eos"});
  EXPECT_EQ(ignored["tokens"], std::vector<int>(tokens.begin(), tokens.begin() + 12));
  EXPECT_EQ(ignored["stopped_by"], "max_tokens");
  EXPECT_FALSE(ignored.contains("stopping_token"));
}

TEST(EndToEnd, NotesAMissingTokenizer) {
  const std::string note = "note[export.no_tokenizer]";
  EXPECT_THAT(export_case("mixtral_a", fresh_folder("none")).err, HasSubstr(note));
  EXPECT_THAT(export_case("mixtral_a", fresh_folder("quiet"), {"--quiet"}).err,
              Not(HasSubstr("note[")));
  EXPECT_THAT(export_case("mixtral_a", fresh_folder("noise"), {"--seeded-weights", "1"}).err,
              Not(HasSubstr(note)));
  EXPECT_THAT(export_case("tinymoe", fresh_folder("some")).err, Not(HasSubstr(note)));
}

TEST(EndToEnd, StopsWhenTheContextIsFull) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--tokens", "1,16", "--context", "20"}));
  const Outcome beyond = run_command({"run", out, "--prompt", std::string(21, 'a')});
  EXPECT_EQ(beyond.exit_code, kExitBadInput);
  EXPECT_THAT(beyond.err, HasSubstr("error[session.context_full]: the prompt of 21 tokens"));
  EXPECT_EQ(beyond.out, "");
  const auto written = [&](Words more) {
    more.insert(more.begin(), {"run", out, "--prompt", std::string(18, 'a'), "--json"});
    const auto json = nlohmann::json::parse(run_command(more).out);
    return std::pair(json["tokens"].size(), json["stopped_by"].get<std::string>());
  };
  EXPECT_EQ(written({"-n", "9"}), std::pair(size_t{3}, std::string("context")));
  EXPECT_EQ(written({"-n", "3"}), std::pair(size_t{3}, std::string("max_tokens")));
  EXPECT_THAT(run_command({"run", out, "--prompt", "def ", "-n", "60"}).err,
              HasSubstr("the context of 20 tokens is full"));
}

// Like transformers, uses a stored head even if the config ties the head to the embedding.
TEST(EndToEnd, PrefersAStoredHeadOverTying) {
  const std::string plain = fresh_folder("plain"), tied = fresh_folder("tied");
  const CheckpointCopy copy;
  expect_fine(run_command({"export", copy.folder(), "--out", plain, "--quiet"}));
  copy.edit_config([](CheckpointCopy::Json& config) { config["tie_word_embeddings"] = true; });
  const Outcome exported = run_command({"export", copy.folder(), "--out", tied});
  expect_fine(exported);
  EXPECT_THAT(exported.err, HasSubstr("note[hf.head.own]"));
  for (const char* file : {"/lm_head/00.data", "/lm_head/00.t1.onnx"})
    EXPECT_EQ(read_file(tied + file) == read_file(plain + file), true) << file;
}

TEST(EndToEnd, SkipsUnselectedGroupsWithHostRouting) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("tinymoe", out, {"--routing", "host", "--experts-per-shard", "4"}));
  const Outcome run = run_command({"run", out, "--prompt", "def f", "-n", "4", "--json"});
  expect_fine(run);
  EXPECT_GT(nlohmann::json::parse(run.out)["skipped_steps"].get<int>(), 0);
}

TEST(EndToEnd, RejectsRunningPartialExports) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("qwen3_moe_a", out, {"--layers", "1"}));
  const nlohmann::json model = read_json(out + "/manifest.json").at("model");
  EXPECT_EQ(model.at("layers"), 1);
  EXPECT_EQ(model.at("left_out_layers"), 1);
  expect_fine(run_command({"check", out}));
  for (const Outcome& refused :
       {run_command({"run", out, "--prompt", "a"}), validate_case("qwen3_moe_a", out)}) {
    EXPECT_EQ(refused.exit_code, kExitBadInput);
    EXPECT_THAT(refused.err, HasSubstr("session.part_of_a_model"));
    EXPECT_THAT(refused.err, HasSubstr("the first 1 of 2 layers"));
  }
  const Outcome many = export_case("qwen3_moe_a", out, {"--layers", "3", "--force"});
  EXPECT_EQ(many.exit_code, kExitBadInput);
  EXPECT_THAT(many.err, HasSubstr("model.layers_kept"));
}

// The encoded parts of matrices in dropped layers are dropped, too.
TEST(EndToEnd, ExportsFirstLayersOfQuantizedCheckpoints) {
  for (const char* name : {"gpt_oss_c", "deepseek_v3_c", "deepseek_v3_d"}) {
    const std::string out = fresh_folder("out");
    expect_fine(export_case(name, out, {"--layers", "1"}));
    expect_fine(run_command({"check", out}));
  }
}

// If the head is untied, the shards read every byte of the payload once, for any number of widths,
// functions and targets. Each shard of a split layer has a copy of the layer's norm. Only routers
// and their norms are read in several forms: f32 for onnx, f16 for ane.
TEST(EndToEnd, ReadsExpertBytesOnce) {
  const std::string file = checkpoint_of("mixtral_a") + "/model.safetensors";
  uint64_t header = 0;
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  const uint64_t payload = fs::file_size(file) - sizeof header - header;
  const auto config = read_json(checkpoint_of("mixtral_a") + "/config.json");
  const uint64_t router = config.at("num_hidden_layers").get<uint64_t>() *
                          (config.at("num_local_experts").get<uint64_t>() + 1) *
                          config.at("hidden_size").get<uint64_t>() * 2;
  for (const auto& [flags, forms] :
       {std::pair(Words{"--tokens", "1"}, 1), std::pair(Words{"--tokens", "1,4,16"}, 1),
        std::pair(Words{"--dtype", "f16", "--tokens", "1,16"}, 1),
        std::pair(Words{"--target", "ane", "--tokens", "1,16"}, 3),
        std::pair(Words{"--target", "ane", "--tokens", "1,16", "--multi-function"}, 3),
        std::pair(Words{"--target", "onnx,ane", "--dtype", "f16", "--tokens", "1,16"}, 4)}) {
    const std::string out = fresh_folder("out");
    Words words = {"--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome exported = export_case("mixtral_a", out, words);
    expect_fine(exported);
    const auto read = nlohmann::json::parse(exported.out).at("bytes_read").get<uint64_t>();
    EXPECT_GE(read, payload) << flags.back();
    EXPECT_LE(read, payload + static_cast<uint64_t>(forms - 1) * router) << flags.back();
  }
}

TEST(EndToEnd, RecordsValidationInTheManifest) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out));
  expect_fine(validate_case("mixtral_a", out, {"--record"}));
  const nlohmann::json manifest = read_json(out + "/manifest.json");
  ASSERT_EQ(manifest["golden"].size(), 5u);
  EXPECT_EQ(manifest["golden"][0]["shard"], "L00.attn");
  EXPECT_GE(manifest["golden"][0]["cosine"].get<double>(), 0.999999);
  expect_fine(run_command({"check", out}));
}

TEST(EndToEnd, InspectsCheckpointExportAndFile) {
  const std::string out = fresh_folder("out");
  expect_fine(export_case("mixtral_a", out));
  const Outcome checkpoint = run_command({"inspect", checkpoint_of("mixtral_a"), "--json"});
  expect_fine(checkpoint);
  EXPECT_EQ(nlohmann::json::parse(checkpoint.out)["experts"], 5);
  EXPECT_THAT(run_command({"inspect", out}).out, HasSubstr("L00.moe"));
  EXPECT_THAT(run_command({"inspect", out + "/moe/L00.t1.onnx"}).out,
              HasSubstr("shard L00.moe placed {"));
}

TEST(EndToEnd, OptRunsPassesOfTheFile) {
  const std::string file = source_path("tests/passes/lower_router.ir");
  const Outcome by_file = run_command({"opt", file});
  expect_fine(by_file);
  EXPECT_THAT(by_file.out, HasSubstr("%router.rank = "));
  const Outcome by_flags =
      run_command({"opt", file, "--passes", "lower_router", "--routing", "iterate", "--timing"});
  expect_fine(by_flags);
  EXPECT_THAT(by_flags.out, HasSubstr("round1"));
  EXPECT_THAT(by_flags.err, HasSubstr("lower_router"));
}

TEST(EndToEnd, OptWritesRequestedDumps) {
  const std::string dumps = fresh_folder("dumps");
  expect_fine(run_command({"opt", source_path("tests/passes/lower_router.ir"), "--dump-after",
                           "all", "--dump-dir", dumps}));
  EXPECT_EQ(all_bytes(dumps).size(), 1u);
}

TEST(EndToEnd, ShowsAnExampleInHelp) {
  for (const char* command : {"inspect", "export", "check", "validate", "run", "opt"}) {
    const Outcome help = run_command({command, "--help"});
    EXPECT_EQ(help.exit_code, kExitFine);
    EXPECT_THAT(help.out, HasSubstr(std::string("Example: moec ") + command));
  }
}

}  // namespace
}  // namespace moec
