// moec family check, and the worked example of models/families/README.md.
#include <gmock/gmock.h>

#include "models/families/family.h"
#include "tests/files.h"
#include "tests/frontends/cli/checkpoint_tensors.h"

namespace moec {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

// Returns the fenced block that follows the given words on the page.
std::string block_after(const std::string& words) {
  const std::string page = read_file(source_path("models/families/README.md"));
  const size_t at = page.find(words);
  EXPECT_NE(at, std::string::npos) << words;
  const size_t begin = page.find('\n', page.find("```", at)) + 1;
  return page.substr(begin, page.find("```", begin) - begin);
}

// The model of the page: its config, its descriptor, and random weights.
class WorkedExample : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder("petal");
    descriptor_ = fresh_folder("family") + "/petal_moe.json";
    config_ = block_after("a checkpoint has this `config.json`");
    write(folder_ + "/config.json", config_);
    write(descriptor_, block_after("`petal_moe.json`:"));
    const auto family = read_family();
    ASSERT_TRUE(family.has_value()) << render(family.error());
    tensors_ = random_tensors(config_, &*family);
  }

  static void write(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  Result<Family> read_family() const { return load_family(read_file(descriptor_), descriptor_); }

  Outcome check(const Words& more = {}) const {
    write_tensors(folder_, tensors_);
    Words words = {"family", "check", descriptor_, "--checkpoint", folder_};
    words.insert(words.end(), more.begin(), more.end());
    return run_command(words);
  }

  void edit(const std::string& path, const std::string& from, const std::string& to) const {
    std::string text = read_file(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    write(path, text.replace(at, from.size(), to));
  }

  std::string folder_, descriptor_, config_;
  DiskTensors tensors_;
};

TEST_F(WorkedExample, PrintsTheDocumentedOutput) {
  tensors_["h.1.attn.bias_mask"] = {"U8", {2, 2}, std::string(4, '\1')};
  const Outcome outcome = check();
  EXPECT_EQ(outcome.exit_code, kExitFellShort) << outcome.err;
  EXPECT_EQ(outcome.out, block_after("--checkpoint petal` then prints"));
  edit(descriptor_,
       "\"must\":", R"("ignored_tensors": {"h.*.attn.bias_mask": "a constant"}, "must":)");
  const Outcome mended = check();
  expect_fine(mended);
  EXPECT_THAT(mended.out, HasSubstr("every tensor of the checkpoint is accounted for"));
}

TEST_F(WorkedExample, ExportsAndPassesTheCheck) {
  expect_fine(check());
  const std::string out = fresh_folder("out");
  expect_fine(run_command(
      {"export", folder_, "--family-file", descriptor_, "--out", out, "--quiet", "--tokens", "1"}));
  expect_fine(run_command({"check", out}));
}

TEST_F(WorkedExample, NamesMissingTensors) {
  tensors_["h.1.moe.3.gating.weight"] = tensors_.at("h.1.moe.3.gate.weight");
  tensors_.erase("h.1.moe.3.gate.weight");
  tensors_.at("h.0.attn.k.weight").shape = {16, 8};
  const Outcome outcome = check();
  EXPECT_EQ(outcome.exit_code, kExitFellShort);
  EXPECT_THAT(outcome.out, HasSubstr("expert_gate          11 of 12"));
  EXPECT_THAT(outcome.out, HasSubstr("hf.tensor.missing"));
  EXPECT_THAT(outcome.out, HasSubstr("the nearest name is \"h.1.moe.3.gating.weight\""));
  EXPECT_THAT(outcome.out, HasSubstr("the k of this model must be [8,16], found [16,8]"));
  EXPECT_THAT(outcome.out, HasSubstr("tensor h.1.moe.3.gating.weight: the tensor has no role"));
  const Json json = Json::parse(check({"--json"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["diagnostics"].size(), 3u);
  EXPECT_EQ(json["roles"][3]["role"], "k");
  EXPECT_EQ(json["roles"][3]["found"], 1);
}

TEST_F(WorkedExample, ShowsTheSourceOfEachValue) {
  const Outcome outcome =
      run_command({"family", "check", descriptor_, "--config", folder_ + "/config.json", "--json"});
  expect_fine(outcome);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["axes"]["renorm"], "sum");
  EXPECT_EQ(json["concepts"]["layers"],
            (Json{{"value", "2"}, {"from", "config"}, {"key", "n_layer"}}));
  EXPECT_EQ(json["concepts"]["head_dim"],
            (Json{{"value", "4"}, {"from", "default"}, {"expression", "= hidden / heads"}}));
  EXPECT_EQ(json["other_keys"]["router_noise"]["use"], "harmless: training only");
  EXPECT_EQ(json["roles"][0],
            (Json{{"role", "embed"}, {"name", "wte.weight"}, {"shape", {40, 16}}, {"needed", 1}}));
  EXPECT_EQ(json["diagnostics"], Json::array());
}

// Authors of a new descriptor use this to find keys that the descriptor does not handle yet.
TEST_F(WorkedExample, ExplainsAConfigWithErrors) {
  edit(folder_ + "/config.json", "{", R"({"rotate_twice": true, "n_lair": 2,)");
  const Outcome outcome = check();
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.out, HasSubstr("key n_layer"));
  EXPECT_THAT(outcome.out, HasSubstr("rotate_twice       true               unknown"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("tensors")));
  EXPECT_THAT(outcome.err, HasSubstr("the key \"rotate_twice\" (true) is not known"));
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'n_layer'?"));
  const Json json = Json::parse(check({"--json"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["diagnostics"].size(), 2u);
  EXPECT_EQ(json["concepts"]["layers"]["value"], "2");
}

TEST_F(WorkedExample, ReportsTheLineOfErrors) {
  edit(folder_ + "/config.json", "\"n_expert_used\"", "\"n_experts_used\"");
  Outcome outcome = check();
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  EXPECT_THAT(outcome.err, HasSubstr(folder_ + "/config.json:11"));
  EXPECT_THAT(outcome.err, HasSubstr("did you mean 'n_expert_used'?"));
  edit(descriptor_, "\"= hidden / heads\"", "\"= hidden - heads\"");
  outcome = check({"--json"});
  EXPECT_EQ(outcome.exit_code, kExitBadInput);
  const Json json = Json::parse(outcome.out);
  EXPECT_EQ(json["diagnostics"][0]["code"], "family.expression");
  EXPECT_EQ(json["diagnostics"][0]["place"]["file"], descriptor_);
  EXPECT_EQ(json["diagnostics"][0]["place"]["line"], 16);
}

TEST(FamilyCheck, RequiresAConfig) {
  const Words words = {"family", "check", source_path("models/families/mixtral.json")};
  EXPECT_EQ(run_command(words).exit_code, kExitBadInput);
  EXPECT_EQ(run_command({"family"}).exit_code, kExitBadInput);
}

// The rule of a key that is null differs from that of an absent key.
TEST(FamilyCheck, ShowsTheExpressionForNull) {
  const std::string folder = fresh_folder("null");
  std::ofstream(folder + "/qwen2.json") << run_command({"family", "show", "qwen2"}).out;
  std::string config = read_file(source_path("tests/golden/qwen2_a/config.json"));
  const std::string key = "\"num_key_value_heads\": ";
  config.replace(config.find(key) + key.size(), 1, "null");
  std::ofstream(folder + "/config.json") << config;
  const Outcome outcome = run_command(
      {"family", "check", folder + "/qwen2.json", "--config", folder + "/config.json", "--json"});
  expect_fine(outcome);
  EXPECT_EQ(Json::parse(outcome.out)["concepts"]["kv_heads"],
            (Json{{"value", "6"}, {"from", "default"}, {"expression", "= heads"}}));
}

TEST(FamilyShow, PrintsTheBuiltInDescriptor) {
  const Outcome outcome = run_command({"family", "show", "qwen3_moe"});
  expect_fine(outcome);
  EXPECT_EQ(outcome.out, read_file(source_path("models/families/qwen3_moe.json")));
  EXPECT_EQ(run_command({"family", "show", "qwen3_vl_moe"}).out,
            read_file(source_path("models/families/qwen3_vl_moe_text.json")));
  EXPECT_THAT(run_command({"family", "show", "mixtrel"}).err, HasSubstr("did you mean 'mixtral'?"));
}

// Covers one key of each kind: top level, inside an object, with a dot in its name, and of the
// outer model.
TEST(IgnoreKey, IgnoresUnknownKeys) {
  const CheckpointCopy copy("qwen3_vl_moe_a", "nested");
  copy.edit_config([](CheckpointCopy::Json& config) {
    config["text_config"]["swizzle"] = 3;
    config["text_config"]["a.b"] = true;
    config["tower"] = "x";
  });
  Words words = {"plan", copy.folder()};
  EXPECT_THAT(run_command(words).err, HasSubstr("pass --ignore-key swizzle"));
  words.insert(words.end(), {"--ignore-key", "swizzle", "--ignore-key", "a..b"});
  EXPECT_THAT(run_command(words).err, HasSubstr("pass --ignore-key tower"));
  words.insert(words.end(), {"--ignore-key", "tower"});
  expect_fine(run_command(words));
  words[0] = "inspect";
  expect_fine(run_command(words));
}

TEST(IgnoreKey, RejectsReadAndAbsentKeys) {
  for (const auto& [key, cause] : {std::pair("hidden_size", "reads the key \"hidden_size\""),
                                   {"rope_parameters", "reads the key \"rope_parameters\""},
                                   {"rope_parameters.rope_theta", "has no key"},
                                   {"attention_bias", "reads the key \"attention_bias\""},
                                   {"hiden_size", "has no key \"hiden_size\""}}) {
    const Outcome outcome = run_command({"plan", checkpoint_of("tinymoe"), "--ignore-key", key});
    EXPECT_EQ(outcome.exit_code, kExitBadInput);
    EXPECT_THAT(outcome.err, HasSubstr("hf.config.ignored_key"));
    EXPECT_THAT(outcome.err, HasSubstr(cause));
  }
}

TEST(FamilyCheck, AccountsForGoldenCheckpoints) {
  for (const auto& [family, golden] : {std::pair<std::string, std::string>{"qwen3_moe", "tinymoe"},
                                       {"gpt_oss", "gpt_oss_b"},
                                       {"deepseek_v2", "deepseek_v2_a"}}) {
    const Outcome outcome =
        run_command({"family", "check", source_path("models/families/" + family + ".json"),
                     "--checkpoint", checkpoint_of(golden)});
    expect_fine(outcome);
    EXPECT_THAT(outcome.out, Not(HasSubstr("error[")));
  }
}

}  // namespace
}  // namespace moec
