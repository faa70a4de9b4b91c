// Configs and checkpoints with excessive counts are rejected early and with short messages.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "frontends/sources/hf/config.h"
#include "models/families/family_vocabulary.h"
#include "models/published/published.h"
#include "tests/frontends/cli/checkpoint_copy.h"
#include "tests/frontends/cli/golden_case.h"

namespace moec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Json = CheckpointCopy::Json;

// Adds members to an object's text, because adding them to a JSON value is slow.
std::string with_members(const std::string& object, int count) {
  std::string members;
  for (int i = 0; i < count; ++i) members += fmt::format("\"surplus_{}\": {}, ", i, i);
  return std::string(object).insert(object.find('{') + 1, members);
}

constexpr size_t kShort = 60'000;  // bytes of output

// Returns the command's output as text and as JSON, and expects both to be short.
std::string short_output(Words words, int exit_code) {
  const Outcome text = run_command(words);
  words.emplace_back("--json");
  const Outcome json = run_command(words);
  for (const Outcome& outcome : {text, json}) {
    EXPECT_EQ(outcome.exit_code, exit_code) << testing::PrintToString(words);
    EXPECT_LT(outcome.out.size() + outcome.err.size(), kShort) << testing::PrintToString(words);
  }
  EXPECT_EQ(Json::parse(json.out)["ok"], exit_code == kExitFine);
  return text.out + text.err;
}

TEST(Excess, ShortensListsOfUnknownConfigKeys) {
  const CheckpointCopy copy;
  copy.write("config.json", with_members(copy.read("config.json"), 50'000));
  EXPECT_THAT(short_output({"plan", copy.folder()}, kExitBadInput),
              AllOf(HasSubstr("the key \"surplus_0\" (0) is not known"),
                    HasSubstr("and 49988 more with this code")));
  EXPECT_THAT(short_output({"family", "check", source_path("models/families/mixtral.json"),
                            "--config", copy.folder()},
                           kExitBadInput),
              HasSubstr("and 49988 more with this code"));
}

TEST(Excess, ShortensListsOfRotationMembers) {
  const CheckpointCopy copy;
  copy.edit_config([](Json& config) {
    config.erase("rope_parameters");
    config["rope_scaling"] = "ROTATION";
  });
  const std::string rotation = with_members(R"({"rope_type": "linear", "factor": 2.0})", 100'000);
  std::string config = copy.read("config.json");
  copy.write("config.json", config.replace(config.find("\"ROTATION\""), 10, rotation));
  EXPECT_THAT(short_output({"plan", copy.folder()}, kExitBadInput),
              HasSubstr("and 99988 more with this code"));
}

TEST(Excess, ShortensListsOfDescriptorFields) {
  const std::string file = fresh_folder("family") + "/family.json";
  const std::string mixtral = read_file(source_path("models/families/mixtral.json"));
  write_file(file, with_members(mixtral, 50'000));
  EXPECT_THAT(short_output({"family", "check", file, "--config", checkpoint_of("mixtral_a")},
                           kExitBadInput),
              HasSubstr("error[family.unknown_field]: and 49988 more with this code"));
}

// Adds unneeded tensors of 128 bytes each.
void add_tensors(const CheckpointCopy& copy, const char* dtype, int64_t elements, int64_t count) {
  const std::string file = copy.read("model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  const auto payload = static_cast<int64_t>(file.size() - 8 - length);
  copy.edit_header_text([&](const std::string& header) {
    std::string entries;
    for (int64_t i = 0; i < count; ++i)
      entries += fmt::format(
          R"("surplus.{}": {{"dtype": "{}", "shape": [{}], "data_offsets": [{}, {}]}}, )", i, dtype,
          elements, payload + 128 * i, payload + 128 * (i + 1));
    return std::string(header).insert(header.find('{') + 1, entries);
  });
  copy.write("model.safetensors", copy.read("model.safetensors") + std::string(128 * count, '\0'));
}

TEST(Excess, ShortensListsOfUnusedTensors) {
  const std::string family = source_path("models/families/mixtral.json");
  for (const auto& [dtype, elements] : {std::pair("F32", 32), std::pair("F64", 16)}) {
    const CheckpointCopy copy("mixtral_a", dtype);
    add_tensors(copy, dtype, elements, 20'000);
    const bool is_float = elements == 32;
    short_output({"inspect", copy.folder()}, kExitFine);
    short_output({"plan", copy.folder()}, kExitFine);
    short_output({"export", copy.folder(), "--out", fresh_folder("out"), "--force"},
                 is_float ? kExitBadInput : kExitFine);
    EXPECT_THAT(
        short_output({"family", "check", family, "--checkpoint", copy.folder()}, kExitFellShort),
        HasSubstr("error[hf.tensor.unused]: and 19980 more with this code"));
  }
}

std::string refusal(const std::function<void(Json&)>& edit) {
  const CheckpointCopy copy;
  copy.edit_config(edit);
  return short_output({"plan", copy.path("config.json")}, kExitBadInput);
}

// Planning any of these models would exhaust the machine's memory or run for hours.
TEST(Excess, RejectsExcessiveCounts) {
  EXPECT_THAT(refusal([](Json& config) { config["num_local_experts"] = 65536; }),
              AllOf(HasSubstr("error[hf.config.range]"), HasSubstr("from 0 to 4096")));
  EXPECT_THAT(refusal([](Json& config) { config["num_hidden_layers"] = 4096; }),
              AllOf(HasSubstr("error[hf.config.range]"), HasSubstr("from 1 to 1024")));
  EXPECT_THAT(refusal([](Json& config) {
                config["num_local_experts"] = 4096;
                config["num_hidden_layers"] = 33;
              }),
              AllOf(HasSubstr("error[model.experts]"),
                    HasSubstr("33 layers of 4096 experts exceed the limit of 131072 in total")));
  EXPECT_THAT(refusal([](Json& config) {
                config["num_attention_heads"] = 65536;
                config["num_key_value_heads"] = 65536;
              }),
              HasSubstr("from 1 to 4096"));
}

// The limits are at least four times the values of every published model.
TEST(Excess, AllowsFourTimesThePublishedSizes) {
  const auto expect_room = [](const char* name, int64_t value, const std::string& model) {
    EXPECT_GE(find_concept(name)->maximum, 4 * value) << name << " of " << model;
  };
  for (const PublishedModel& model : published_models()) {
    const ModelConfig config = read_config(model.config, model.name).value().model;
    expect_room("layers", std::ssize(config.layers), model.name);
    expect_room("experts", config.moe.experts, model.name);
    expect_room("top_k", config.moe.routing.top_k, model.name);
    expect_room("groups", config.moe.routing.groups, model.name);
    expect_room("heads", config.attention.heads, model.name);
    expect_room("kv_heads", config.attention.kv_heads, model.name);
    expect_room("hidden", config.hidden, model.name);
    expect_room("vocab", config.vocab, model.name);
  }
}

}  // namespace
}  // namespace moec
