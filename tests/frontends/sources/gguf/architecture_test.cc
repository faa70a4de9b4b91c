#include "frontends/sources/gguf/architecture.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <set>

#include "models/families/family.h"
#include "models/families/family_vocabulary.h"
#include "tests/models/expect_error.h"

namespace moec {
namespace {

using testing::HasSubstr;

constexpr std::string_view kCommon = R"({"format": "moec-gguf/1",
  "concepts": {"layers": "block_count", "activation": {"is": "silu"}},
  "tensors": {"q": "blk.{i}.attn_q.weight", "k": "blk.{i}.attn_k.weight"}, "refused": {}})";

std::string small_architecture(std::string_view concepts, std::string_view more = "") {
  return R"({"format": "moec-gguf/1", "arch": "small", "families": [{"family": "mixtral"}],
             "rotates_heads": true, "concepts": {)" +
         std::string(concepts) + "}" + std::string(more) + "}";
}

GgufArchitecture load(std::string_view concepts, std::string_view more = "") {
  auto loaded = load_gguf_architecture(small_architecture(concepts, more), kCommon, "small.json");
  EXPECT_TRUE(loaded) << render(loaded.error());
  return loaded.value_or(GgufArchitecture());
}

TEST(GgufArchitecture, OverridesTheCommonArchitecture) {
  const GgufArchitecture loaded =
      load(R"("layers": "depth")", R"(, "rows": "pairs", "tensors": {"q": "q.{i}"})");
  EXPECT_EQ(loaded.name, "small");
  EXPECT_EQ(loaded.forms.rows, GgufRows::pairs);
  EXPECT_EQ(loaded.concepts.at("layers").from, (std::vector<GgufExpression>{{.left = "depth"}}));
  EXPECT_EQ(*loaded.concepts.at("activation").is->string(), "silu");
  EXPECT_EQ(loaded.tensors.at("q"), "q.{i}");
  EXPECT_EQ(loaded.tensors.at("k"), "blk.{i}.attn_k.weight");
}

TEST(GgufArchitecture, ReadsAlternativesAndKeyExpressions) {
  const GgufArchitecture loaded = load(R"("layers": "a.b - c | d / e | f | 2.5 | false")");
  EXPECT_EQ(loaded.concepts.at("layers").from, (std::vector<GgufExpression>{{"a.b", "c", '-', ""},
                                                                            {"d", "e", '/', ""},
                                                                            {"f", "", 0, ""},
                                                                            {"", "", 0, "2.5"},
                                                                            {"", "", 0, "false"}}));
}

TEST(GgufArchitecture, ReadsAdditionalWrittenKeys) {
  const GgufArchitecture loaded = load(R"("layers": "depth")", R"(, "writes": {
      "keys": {"a": "1", "b": "heads + kv_heads"}, "head": true, "scalings": ["none", "llama3"],
      "equal": {"hidden": "heads * head_dim", "o_bias": "0"}, "excludes": {"q_rank": [26, 27]}})");
  const GgufWriting& writing = loaded.writing;
  EXPECT_EQ(writing.keys.at("a").number, 1);
  EXPECT_EQ(writing.keys.at("b").concepts, (std::vector<std::string>{"heads", "kv_heads"}));
  EXPECT_TRUE(writing.needs_head);
  EXPECT_EQ(writing.scalings, (std::vector{RopeScaling::none, RopeScaling::llama3}));
  EXPECT_EQ(writing.equal.at("hidden").concepts, (std::vector<std::string>{"heads", "head_dim"}));
  EXPECT_EQ(writing.equal.at("o_bias").number, 0);
  ASSERT_EQ(writing.exclusions.size(), 1u);
  EXPECT_EQ(writing.exclusions[0].layers, (std::vector<int64_t>{26, 27}));
}

TEST(GgufArchitecture, ReadsRulesOfOtherKeys) {
  const GgufArchitecture loaded = load(R"("layers": "depth")", R"(, "keys": {
      "a": {"only": [true, 2.5]}, "b": {"same_as": "a"}, "c": {"unread": 32},
      "d": {"harmless": "a note"}})");
  EXPECT_EQ(loaded.keys.at("a").only, (std::vector<double>{1, 2.5}));
  EXPECT_EQ(loaded.keys.at("b").same_as, "a");
  EXPECT_EQ(loaded.keys.at("c").unread, 32);
  EXPECT_EQ(loaded.keys.at("d").harmless, "a note");
}

TEST(GgufArchitecture, ReadsFormsOfTensors) {
  const GgufArchitecture loaded = load(R"("layers": "depth")", R"(, "value_heads": "tiled",
      "tensors": {"k": null, "q": {"name": "q.{i}", "as": "neg_exp", "dims": ["-1", "heads"]}})");
  EXPECT_EQ(loaded.forms.value_heads, GgufHeads::tiled);
  EXPECT_FALSE(loaded.tensors.contains("k"));
  EXPECT_EQ(loaded.tensors.at("q"), "q.{i}");
  EXPECT_EQ(loaded.forms.roles.at("q").as, MapFn::neg_exp);
  EXPECT_EQ(loaded.forms.roles.at("q").dims, (std::vector<std::string>{"-1", "heads"}));
}

TEST(GgufArchitecture, ReadsKindsOfLayers) {
  const GgufArchitecture loaded = load(R"("layers": "depth")", R"(, "config": {"a": 1},
      "rotations": [{"kind": "conv", "base": "b"}],
      "layers": {"list": "layer_types", "kinds": [{"kind": "full_attention", "keys": {"k": false}},
      {"kind": "conv", "keys": {"k": true}}], "steps": {"k": {"number": "n", "otherwise": 4}}})");
  EXPECT_EQ(loaded.config.at("a").integer() == nullptr, false);
  EXPECT_EQ(loaded.rotations.at(0).base, "b");
  EXPECT_EQ(loaded.rotations.at(0).dims, "rope.dimension_count");
  EXPECT_EQ(loaded.layers.kinds.at(1).name, "conv");
  EXPECT_TRUE(loaded.layers.kinds.at(1).keys.at("k").is_flag);
  EXPECT_EQ(loaded.layers.steps.at("k").otherwise, 4);
}

TEST(GgufArchitecture, MapsEachFamilyToOneArchitecture) {
  for (const char* family : {"mixtral", "llama", "mistral"})
    EXPECT_EQ((*gguf_architecture_of(family))->name, "llama");
  EXPECT_EQ((*gguf_architecture_of("deepseek_v2"))->name, "deepseek2");
  expect_error(gguf_architecture_of("phimoe"), "gguf.family", "another norm");
  expect_error(gguf_architecture_of("zaya"), "gguf.family", "no architecture");
}

TEST(GgufArchitecture, RejectsUnknownFieldsAndValues) {
  const auto code_of = [](const std::string& text) {
    const auto loaded = load_gguf_architecture(text, kCommon, "small.json");
    return loaded ? "fine" : loaded.error().front().code;
  };
  EXPECT_EQ(code_of(small_architecture(R"("layers": {"key": "a", "colour": 1})")),
            "gguf_architecture.unknown_field");
  EXPECT_EQ(code_of(small_architecture(R"("layers": {"key": "a", "is": 1})")),
            "gguf_architecture.bad_value");
  EXPECT_EQ(code_of(small_architecture(R"("layers": {"key": "a", "names": {"one": 1}})")),
            "gguf_architecture.bad_value");
  for (const char* rule :
       {R"({})", R"({"only": []})", R"({"only": ["x"]})", R"({"unread": 1, "harmless": "a note"})"})
    EXPECT_EQ(code_of(small_architecture("", fmt::format(R"(, "keys": {{"a": {}}})", rule))),
              "gguf_architecture.bad_value")
        << rule;
  EXPECT_EQ(code_of(small_architecture("", R"(, "rows": "triples")")),
            "gguf_architecture.bad_value");
  EXPECT_EQ(code_of(small_architecture(R"("mlp_types": {"has": "a", "listed": ["dense"]})")),
            "gguf_architecture.bad_value");
  EXPECT_EQ(code_of(small_architecture(
                "", R"(, "layers": {"list": "layer_types", "kinds": [], "steps": {"k": {}}})")),
            "gguf_architecture.bad_value");
  EXPECT_EQ(code_of(R"({"format": "moec-gguf/2"})"), "gguf_architecture.bad_value");
}

TEST(GgufArchitectures, AreFoundByNameOrSuggested) {
  EXPECT_EQ((*find_gguf_architecture("deepseek2"))->families.size(), 3u);
  const auto unknown = find_gguf_architecture("qwen3mo");
  ASSERT_FALSE(unknown);
  EXPECT_THAT(unknown.error().front().cause, HasSubstr("did you mean 'qwen3moe'"));
  const auto refused = find_gguf_architecture("phimoe");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().front().cause, HasSubstr("another router"));
}

// Defaults of transformers classes do not apply to GGUF files.
TEST(GgufArchitectures, MapEachConceptOfAConfig) {
  const std::set<std::string> elsewhere = {"vocab", "tied_head", "rope_theta"};
  for (const GgufArchitecture& architecture : gguf_architectures())
    for (const GgufFamily& named : architecture.families) {
      const Family* family = *find_family(named.family);
      for (const auto& [name, rule] : family->concepts) {
        if (rule.keys.empty() || elsewhere.contains(name)) continue;
        EXPECT_TRUE(architecture.concepts.contains(name)) << architecture.name << " " << name;
      }
    }
}

TEST(GgufArchitectures, NameOnlyKnownConceptsAndFamilies) {
  std::set<std::string> families;
  for (const GgufArchitecture& architecture : gguf_architectures()) {
    for (const auto& [name, item] : architecture.concepts)
      EXPECT_NE(find_concept(name), nullptr) << architecture.name << " " << name;
    for (const GgufFamily& named : architecture.families) families.insert(named.family);
  }
  EXPECT_EQ(families.size(), 37u);
}

}  // namespace
}  // namespace moec
