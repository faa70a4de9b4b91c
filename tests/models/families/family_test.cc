#include "models/families/family.h"

#include "tests/models/expect_error.h"

namespace moec {
namespace {

// A valid descriptor; each test breaks one part of it.
const char* const kMinimal = R"({
  "format": "moec-family/1",
  "model_type": "small",
  "summary": "for tests",
  "axes": {"qk_norm": "full"},
  "concepts": {
    "layers": {"keys": ["n_layers"]},
    "hidden": {"keys": ["d"]},
    "vocab": {"keys": ["v"]},
    "max_positions": {"keys": ["p"]},
    "norm_eps": {"default": 1e-6},
    "activation": {"default": "silu"},
    "tied_head": {"default": false},
    "heads": {"keys": ["h"]},
    "kv_heads": {"keys": ["kv"], "default": "= heads"},
    "head_dim": {"default": "= hidden / heads"},
    "experts": {"keys": ["e"]},
    "top_k": {"keys": ["k"]},
    "expert_ff": {"keys": ["f"]},
    "score": {"default": "softmax"}
  },
  "tensors": {"embed": "embed.weight", "expert_up": ["l.{i}.{e}.up", "m.{i}.{e}.up"]}
})";

std::string with(const std::string& from, const std::string& to) {
  std::string text = kMinimal;
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

void expect_refused(const std::string& from, const std::string& to, const std::string& code,
                    const std::string& part) {
  expect_error(load_family(with(from, to), "f.json"), code, part);
}

TEST(Family, LoadsADescriptor) {
  Result<Family> family = load_family(kMinimal);
  ASSERT_TRUE(family.has_value()) << render(family.error());
  EXPECT_EQ(family->model_type, "small");
  EXPECT_EQ(family->axes.qk_norm, QkNormWidth::full);
  const ConceptRule& head_dim = family->concepts.at("head_dim");
  ASSERT_TRUE(head_dim.expression.has_value());
  EXPECT_EQ(head_dim.expression->left, "hidden");
  EXPECT_EQ(head_dim.expression->op, '/');
  EXPECT_EQ(head_dim.expression->right, "heads");
  EXPECT_EQ(family->tensors.at("expert_up").size(), 2u);
  EXPECT_EQ(family->rules.harmless.count("transformers_version"), 1u) << "from common.json";
  EXPECT_EQ(family->ignored_tensors.count("*.rotary_emb.inv_freq"), 1u) << "from common.json";
}

TEST(Family, SortsBuiltInFamilies) {
  std::vector<std::string> names;
  for (const Family& family : known_families()) names.push_back(family.model_type);
  EXPECT_THAT(names, testing::IsSupersetOf({"mixtral", "olmoe", "qwen2_moe", "qwen3_moe"}));
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST(Family, SuggestsKnownModelTypes) {
  expect_error(find_family("qwen3_mo"), "hf.family.unknown",
               "unknown model_type \"qwen3_mo\" (did you mean 'qwen3_moe'?); known families: ");
  expect_error(
      find_family("qwen3_mo"), "hf.family.unknown",
      "mistral4, mistral3, mixtral, nemotron_h, olmoe, openai_privacy_filter, phimoe, qwen2, "
      "qwen2_moe, qwen3, "
      "qwen3_5_moe_text, qwen3_5_moe, qwen3_moe, qwen3_next, qwen3_vl_moe_text, qwen3_vl_moe");
  expect_error(find_family("bert"), "hf.family.unknown", "--family-file");
}

TEST(Family, ExplainsUnsupportedModelTypes) {
  expect_error(find_family("jamba"), "hf.family.unsupported",
               "\"jamba\" is not supported: most of its layers are the first form of mamba");
  expect_error(find_family("minimax_m1"), "hf.family.unsupported", "linear attention");
  expect_error(find_family("hy_v4"), "hf.family.unsupported", "several residual streams");
  expect_error(find_family("qwen3_omni_moe"), "hf.family.unsupported",
               "towers for vision and sound");
  for (const Family& family : known_families())
    EXPECT_EQ(why_unsupported(family.model_type), std::nullopt) << family.model_type;
}

const char* const kInside = R"("inside": [{
    "model_type": "large", "key": "text_config",
    "tied_head": {"keys": ["tie"], "default": true},
    "names": {"embed.": ["text.embed.", "lm.embed."], "l.": "text.l."},
    "harmless": {"eyes": "images"},
    "ignored_tensors": {"eyes.*": "images"}}],
    "ignored_tensors": {"l.{mtp}.*": "guesses"},
    "tensors")";

TEST(Family, FindsFamiliesInsideLargerModels) {
  Result<Family> family = load_family(with("\"tensors\"", kInside));
  ASSERT_TRUE(family.has_value()) << render(family.error());
  EXPECT_EQ(family_for(*family, "small"), &*family);
  EXPECT_EQ(family_for(*family, "huge"), nullptr);
  const Family* nested = family_for(*family, "large");
  ASSERT_NE(nested, nullptr);
  EXPECT_EQ(nested->model_type, "small");
  EXPECT_TRUE(nested->concepts.at("tied_head").outer);
  EXPECT_FALSE(family->concepts.at("tied_head").outer);
  EXPECT_EQ(nested->outer->rules.harmless.at("eyes"), "images");
  EXPECT_EQ(nested->outer->rules.must.count("is_encoder_decoder"), 1u) << "from common.json";
}

TEST(Family, UsesOtherNamesInsideLargerModels) {
  using Names = std::vector<std::string>;
  const Result<Family> family = load_family(with("\"tensors\"", kInside));
  ASSERT_TRUE(family.has_value()) << render(family.error());
  const Family& nested = *family_for(*family, "large");
  EXPECT_EQ(nested.tensors.at("embed"),
            (Names{"text.embed.weight", "lm.embed.weight", "embed.weight"}));
  EXPECT_EQ(family->tensors.at("embed"),
            (Names{"embed.weight", "text.embed.weight", "lm.embed.weight"}));
  EXPECT_EQ(nested.tensors.at("expert_up"),
            (Names{"text.l.{i}.{e}.up", "l.{i}.{e}.up", "m.{i}.{e}.up"}));
  for (const Family* one : {&*family, &nested})
    for (const char* pattern : {"eyes.*", "l.{mtp}.*", "text.l.{mtp}.*"})
      EXPECT_EQ(one->ignored_tensors.count(pattern), 1u) << pattern;
}

TEST(Family, ChecksFieldsOfLargerModels) {
  expect_refused("\"tensors\"", "\"inside\": {}, \"tensors\"", "family.type",
                 "\"inside\" must be a list");
  expect_refused("\"tensors\"", "\"inside\": [{\"model_type\": \"large\"}], \"tensors\"",
                 "family.missing_field", "\"key\" is missing");
  expect_refused(
      "\"tensors\"",
      "\"inside\": [{\"model_type\": \"large\", \"key\": \"t\", \"eyes\": 1}], \"tensors\"",
      "family.unknown_field", "unknown field \"eyes\" in inside");
}

TEST(Family, RejectsUnknownFields) {
  expect_refused("\"summary\"", "\"sumary\"", "family.unknown_field",
                 "unknown field \"sumary\" in the file (did you mean 'summary'?)");
  expect_refused("{\"qk_norm\"", "{\"qknorm\": \"full\", \"qk_norm\"", "family.unknown_field",
                 "unknown field \"qknorm\" in axes");
  expect_refused("\"layers\": {\"keys\"", "\"layers\": {\"aliases\": [], \"keys\"",
                 "family.unknown_field", "unknown field \"aliases\" in concept \"layers\"");
  expect_refused("\"hidden\": {", "\"widht\": {\"keys\": [\"w\"]}, \"hidden\": {",
                 "family.unknown_field", "unknown field \"widht\" in concepts");
  expect_refused("\"embed\"", "\"embd\"", "family.unknown_field",
                 "unknown field \"embd\" in tensors (did you mean 'embed'?)");
}

TEST(Family, ReportsTheLineOfFindings) {
  auto family = load_family(with("\"summary\"", "\"sumary\""), "f.json");
  ASSERT_FALSE(family.has_value());
  EXPECT_EQ(family.error()[0].place.file, "f.json");
  EXPECT_EQ(family.error()[0].place.line, 4u);
}

TEST(Family, NamesMissingParts) {
  expect_refused("\"summary\": \"for tests\",", "", "family.missing_field", "\"summary\"");
  expect_refused("\"heads\": {\"keys\": [\"h\"]},", "", "family.missing_concept", "\"heads\"");
  expect_refused("{\"keys\": [\"d\"]}", "{}", "family.missing_field",
                 "concept \"hidden\" has neither keys nor a default");
}

// ---- without experts ---------------------------------------------------------------------------

constexpr std::string_view kExpertConcepts = R"("head_dim": {"default": "= hidden / heads"},
    "experts": {"keys": ["e"]},
    "top_k": {"keys": ["k"]},
    "expert_ff": {"keys": ["f"]},
    "score": {"default": "softmax"})";
constexpr std::string_view kExpertRole = R"(, "expert_up": ["l.{i}.{e}.up", "m.{i}.{e}.up"])";

// Replaces the expert concepts of kMinimal by `concepts`, and the expert roles of kMinimal by
// `role`.
std::string dense_family(const std::string& concepts, std::string_view role = "") {
  std::string text = kMinimal;
  text.replace(text.find(kExpertConcepts), kExpertConcepts.size(),
               R"("head_dim": {"default": "= hidden / heads"})" + concepts);
  return text.replace(text.find(kExpertRole), kExpertRole.size(), role);
}

TEST(Family, MakesLayersDenseWithoutExperts) {
  const Result<Family> dense = load_family(dense_family(R"(, "dense_ff": {"keys": ["f"]})"));
  ASSERT_TRUE(dense) << render(dense.error());
  EXPECT_FALSE(dense->has_experts());
  EXPECT_TRUE(load_family(kMinimal)->has_experts());
  expect_error(load_family(dense_family("")), "family.missing_concept",
               "neither the concept \"experts\" nor \"dense_ff\"");
}

TEST(Family, RejectsExpertConceptsWithoutExperts) {
  for (const std::string about : {"top_k", "moe_step", "renorm_eps", "shared_ff"})
    expect_error(load_family(dense_family(R"(, "dense_ff": {"keys": ["f"]}, ")" + about +
                                          R"(": {"default": 1})")),
                 "family.no_experts", "the concept \"" + about + "\" concerns experts");
  for (const std::string role : {"expert_up\": \"l.{i}.{e}", "router\": \"l.{i}.r",
                                 "experts_down\": \"l.{i}.d", "shared_up\": \"l.{i}.s"})
    expect_error(
        load_family(dense_family(R"(, "dense_ff": {"keys": ["f"]})", ", \"" + role + "\"")),
        "family.no_experts", "concerns experts or their router");
}

TEST(Family, RequiresAllConceptsOfExperts) {
  for (const std::string missing :
       {"\"top_k\": {\"keys\": [\"k\"]},", "\"expert_ff\": {\"keys\": [\"f\"]},"})
    expect_refused(missing, "", "family.missing_concept", missing.substr(0, missing.find(':')));
}

TEST(Family, ListsKnownAxisValues) {
  expect_refused(
      "\"full\"", "\"wide\"", "family.unknown_value",
      "the axis \"qk_norm\" has no value \"wide\"; known: none, per_head, per_head_rotated, full");
}

TEST(Family, RejectsValuesOfWrongTypes) {
  expect_refused("\"axes\": {\"qk_norm\": \"full\"}", "\"axes\": []", "family.type",
                 "\"axes\" must be an object, found an array");
  expect_refused("\"keys\": [\"d\"]", "\"keys\": [3]", "family.type",
                 "\"keys\" must be a non-empty string");
  expect_refused("\"tied_head\": {\"default\": false}", "\"tied_head\": {\"default\": 0}",
                 "family.type", "the default of \"tied_head\" cannot be an integer");
  expect_refused("\"keys\": [\"v\"]", "\"keys\": [\"v\"], \"default\": null", "family.type",
                 "the default of \"vocab\" cannot be null");
  expect_error(load_family("[]"), "family.type", "must be an object");
  expect_error(load_family("{\"a\": 1, \"a\": 2}"), "json.duplicate_key", "\"a\"");
}

TEST(Family, RejectsUnknownFormats) {
  expect_refused("moec-family/1", "moec-family/9", "family.format",
                 "the format is \"moec-family/9\", expected \"moec-family/1\"");
}

TEST(Family, RejectsInvalidExpressions) {
  expect_refused("= hidden / heads", "hidden / heads", "family.expression", "is not an expression");
  expect_refused("= hidden / heads", "= hidden - heads", "family.expression",
                 "is not an expression");
  expect_refused("= hidden / heads", "= hidden / kv_heads", "family.expression",
                 "\"kv_heads\" cannot be part of an expression");
  expect_refused("= hidden / heads", "= hidden / score", "family.expression", "\"score\"");
  expect_refused("= hidden / heads", "= head_dim", "family.expression", "\"head_dim\"");
}

TEST(Family, RejectsMeaningsOfOtherTypes) {
  const std::string heads = "\"keys\": [\"h\"]";
  expect_refused(heads, heads + ", \"meanings\": {\"four\": \"4\"}", "family.type",
                 "\"heads\" is not a name, so it has no meanings");
}

// A config with null for both keys would recurse without end.
TEST(Family, RejectsCircularNullRules) {
  const std::string heads = "\"keys\": [\"h\"]", kv = "\"default\": \"= heads\"";
  const std::string both = with(heads, heads + ", \"null\": \"= kv_heads\"");
  for (const char* rule : {"\"default\": 4, \"null\": \"= heads\"", "\"null\": \"= heads\""}) {
    std::string text = both;
    text.replace(text.find(kv), kv.size(), rule);
    expect_error(load_family(text, "f.json"), "family.expression",
                 "\"heads\" is computed from itself: heads, kv_heads, heads");
    EXPECT_EQ(load_family(text, "f.json").error().front().place.file, "f.json");
    EXPECT_EQ(load_family(text, "f.json").error().size(), 1u);
  }
  expect_refused(heads, heads + ", \"null\": \"= heads\"", "family.expression",
                 "\"heads\" is computed from itself: heads, heads");
  EXPECT_TRUE(load_family(with(heads, heads + ", \"null\": \"= top_k\"")));
}

TEST(Family, RequiresLayerAndExpertInTemplates) {
  expect_refused("embed.weight", "embed.{i}", "family.template", "neither {i} nor {e}");
  expect_refused("m.{i}.{e}.up", "m.{i}.up", "family.template", "{i} and {e}");
  for (const std::string pattern : {"m.{i}.mask", "m.{mtp}.{mtp}.mask"})
    expect_refused("\"tensors\"",
                   "\"ignored_tensors\": {\"" + pattern + "\": \"why\"}, \"tensors\"",
                   "family.template", "may contain {mtp} and {further} once each");
}

}  // namespace
}  // namespace moec
