// Compares the defaults of every descriptor with models/families/class_defaults.json, which lists
// the values that transformers uses for absent keys (see scripts/derive_class_defaults.py).
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "frontends/sources/hf/config.h"
#include "tests/files.h"
#include "tests/frontends/sources/hf/layer_lists.h"
#include "tests/models/expect_error.h"
#include "tests/source_dir.h"

namespace moec {
namespace {

using testing::IsEmpty;
using Findings = std::vector<std::string>;

const JsonValue& table() {
  static const JsonValue parsed = [] {
    Result<JsonValue> root =
        parse_json(read_file(source_dir() + "/models/families/class_defaults.json"), {});
    EXPECT_TRUE(root.has_value()) << render(root.error());
    return root ? std::move(*root) : JsonValue{};
  }();
  return parsed;
}

// Returns the family's entry in the table, with the members "class", "keys" and "rope".
const JsonValue& entry_of(const Family& family) {
  const JsonValue* entry = table().find("families")->find(family.model_type);
  static const JsonValue none{
      JsonValue::Object{{"keys", {JsonValue::Object{}}}, {"rope", {JsonValue::Object{}}}}};
  return entry == nullptr ? none : *entry;
}

const JsonValue& keys_of(const Family& family) { return *entry_of(family).find("keys"); }

// Returns the entry of the key, spelled as in the class, or null if the class has no such field.
const JsonValue* entry_of(const Family& family, const std::string& key) {
  const JsonValue* entry = keys_of(family).find(key);
  if (entry != nullptr && entry->find("alias_of") != nullptr)
    entry = keys_of(family).find(*entry->find("alias_of")->string());
  return entry == nullptr || entry->find("unknown") != nullptr ? nullptr : entry;
}

// Formats an expression in config keys as the table does: "= hidden_size / num_attention_heads". A
// term without a key is itself an expression.
std::string in_keys(const Family& family, const ConceptExpression& expression) {
  auto key = [&](const std::string& name) {
    const ConceptRule& rule = family.concepts.at(name);
    return rule.keys.empty() ? in_keys(family, rule.expression.value()).substr(2) : rule.keys[0];
  };
  if (!expression.has_two()) return "= " + key(expression.left);
  return fmt::format("= {} {} {}", key(expression.left), expression.op, key(expression.right));
}

std::string shown(const Family& family, const ConceptRule& rule) {
  if (rule.expression) return in_keys(family, *rule.expression);
  return rule.fallback ? to_string(*rule.fallback) : "no default";
}

bool same(const JsonValue& left, const JsonValue& right) {
  if (left.number() && right.number()) return *left.number() == *right.number();
  return left == right;
}

// Returns whether the table lists one value per layer; such keys are compared layer by layer.
bool is_by_layer(const JsonValue& entry) { return entry.find("layers") != nullptr; }

// Returns whether the descriptor's default equals the class's value for an absent key.
bool agrees(const Family& family, const ConceptRule& rule, const JsonValue& entry) {
  const JsonValue& usual = *entry.find("default");
  const bool computed = usual.is_null() || usual == JsonValue{std::string("auto")};
  if (!computed) return rule.fallback && same(*rule.fallback, usual);
  const JsonValue* by = entry.find("rule") != nullptr ? entry.find("rule") : entry.find("model");
  // A list repeats; MatchPerLayerLists compares the layers.
  if (is_by_layer(entry))
    return rule.fallback && (rule.fallback->is_null() || rule.fallback->array() != nullptr);
  if (by != nullptr && *by->string() == "raises") return !rule.fallback && !rule.expression;
  if (by != nullptr) return rule.expression && in_keys(family, *rule.expression) == *by->string();
  if (const JsonValue* made = entry.find("computed"))
    return rule.fallback && same(*rule.fallback, *made);
  return !rule.expression && (!rule.fallback || rule.fallback->is_null());
}

Findings differing_defaults(const Family& family) {
  Findings findings;
  for (const auto& [name, rule] : family.concepts)
    for (const std::string& key : rule.keys) {
      const JsonValue* entry = entry_of(family, key);
      if (entry != nullptr && !agrees(family, rule, *entry))
        findings.push_back(fmt::format("{}: the class {}, the descriptor {}", key,
                                       to_string(*entry, 80), shown(family, rule)));
    }
  return findings;
}

// The families with a config class in transformers. Families that can only be planned have none.
std::vector<Family> families_of_classes() {
  const auto all = known_families();
  std::vector<Family> families(all.begin(), all.end());
  std::erase_if(families, [](const Family& family) { return !family.plan_only.empty(); });
  return families;
}

TEST(ClassDefaults, CoverEachFamily) {
  for (const Family& family : families_of_classes())
    EXPECT_NE(table().find("families")->find(family.model_type), nullptr)
        << family.model_type << ": run scripts/derive_class_defaults.py";
}

// Some classes replace null by a computed number; the table lists the number but not its formula.
TEST(ClassDefaults, ReplaceNullsByComputedNumbers) {
  for (const Family& family : families_of_classes())
    for (const auto& [name, rule] : family.concepts)
      for (const std::string& key : rule.keys) {
        const JsonValue* entry = entry_of(family, key);
        const JsonValue* null = entry == nullptr ? nullptr : entry->find("null");
        if (null == nullptr || !null->number() || *null->number() == 0) continue;
        if (rule.null_is_default) {
          EXPECT_EQ(rule.fallback, *null) << family.model_type << " " << key;
          continue;
        }
        ASSERT_TRUE(rule.if_null.has_value()) << family.model_type << " " << key;
        EXPECT_EQ(in_keys(family, *rule.if_null), "= num_attention_heads");
      }
}

TEST(ClassDefaults, MatchEachDescriptor) {
  for (const Family& family : families_of_classes())
    EXPECT_THAT(differing_defaults(family), IsEmpty()) << family.model_type;
}

// Some classes have no field head_dim; their models compute it.
TEST(ClassDefaults, MatchComputedHeadDims) {
  for (const Family& family : families_of_classes()) {
    const JsonValue* entry = keys_of(family).find("head_dim");
    if (entry == nullptr || entry->find("unknown") == nullptr) continue;
    const ConceptRule& rule = family.concepts.at("head_dim");
    ASSERT_TRUE(rule.expression.has_value()) << family.model_type;
    EXPECT_EQ(in_keys(family, *rule.expression), *entry->find("model")->string())
        << family.model_type;
  }
}

bool is_of_the_rotation(std::string_view key) {
  return key == "rope_theta" || key == "partial_rotary_factor" || key == "rope_parameters";
}

// Fails if a descriptor reads a key that the table predates.
TEST(ClassDefaults, IncludeEachKeyOfDescriptors) {
  for (const Family& family : families_of_classes()) {
    Findings missing;
    auto look = [&](const std::string& key) {
      if (keys_of(family).find(key) == nullptr && !is_of_the_rotation(key)) missing.push_back(key);
    };
    for (const auto& [name, rule] : family.concepts)
      for (const std::string& key : rule.keys) look(key);
    EXPECT_THAT(missing, IsEmpty())
        << family.model_type << ": run scripts/derive_class_defaults.py";
  }
}

bool accounts_for(const Family& family, const std::string& key) {
  auto is_this = [&](const std::string& read) { return read == key || read == key + ".0"; };
  for (const auto& [name, rule] : family.concepts)
    if (std::any_of(rule.keys.begin(), rule.keys.end(), is_this)) return true;
  return family.rules.must.count(key) > 0 || family.rules.harmless.count(key) > 0;
}

// An unread field silently keeps its default, so each field must be read or marked as harmless.
TEST(ClassDefaults, AccountForEachField) {
  for (const Family& family : families_of_classes()) {
    Findings missing;
    for (const JsonMember& member : *keys_of(family).object())
      if (!accounts_for(family, member.key) && !is_of_the_rotation(member.key))
        missing.push_back(member.key);
    EXPECT_THAT(missing, IsEmpty()) << family.model_type;
  }
}

TEST(ClassDefaults, SatisfyTheRulesOfDescriptors) {
  for (const Family& family : families_of_classes())
    for (const auto& [key, rule] : family.rules.must) {
      const JsonValue* entry = entry_of(family, key);
      if (entry == nullptr) continue;
      auto is_default = [&](const JsonValue& value) {
        return same(value, *entry->find("default"));
      };
      const auto& accepted = rule.accepted;
      EXPECT_TRUE(rule.absent ? is_default(*rule.absent)
                              : std::any_of(accepted.begin(), accepted.end(), is_default))
          << family.model_type << "." << key;
    }
}

// ---- what a config without the keys becomes ----------------------------------------------------

// The class of lfm2_moe has no default for layer_types.
std::string lfm2_layer_types(const std::string& members) {
  const int layers = members.find("\"num_hidden_layers\": 6") == std::string::npos ? 32 : 6;
  std::string types = R"(, "layer_types": ["full_attention")";
  for (int i = 1; i < layers; ++i) types += R"(, "conv")";
  return types + "]";
}

// Keys that some classes require, and keys that keep the class's model supported. The 4096 dims of
// glm4_moe are not a multiple of its 96 heads: the class rounds down, but moec requires head_dim.
std::string needed_members(const std::string& model_type, const std::string& members) {
  if (model_type == "deepseek_v2") return R"(, "num_experts_per_tok": 6)";
  if (model_type == "gemma4_text")
    return R"(, "hidden_size_per_layer_input": 0, "enable_moe_block": true, "num_experts": 8,
        "top_k_experts": 2, "moe_intermediate_size": 12)";
  if (model_type == "lfm2_moe") return lfm2_layer_types(members);
  if (model_type == "dots1")
    return R"(, "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 2)";
  if (model_type == "hunyuan_v1_moe" || model_type == "glm4_moe" || model_type == "glm4v_moe_text")
    return R"(, "head_dim": 128)";
  if (model_type == "deepseek_v32" || model_type == "glm_moe_dsa")
    return R"(, "index_topk": 1000000)";  // does not limit the positions
  if (model_type == "granitemoehybrid")
    return R"(, "position_embedding_type": "rope")";  // uses rotary embeddings
  return "";
}

Result<HfConfig> read_with(const std::string& model_type, const std::string& members) {
  return read_config(fmt::format(R"({{"model_type": "{}"{}{}}})", model_type,
                                 needed_members(model_type, members), members),
                     "config.json");
}

ModelConfig model_of(const std::string& model_type, const std::string& members) {
  Result<HfConfig> config = read_with(model_type, members);
  EXPECT_TRUE(config.has_value()) << model_type << members << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

TEST(ClassDefaults, FillInOmittedKeys) {
  for (const Family& family : families_of_classes()) {
    const JsonValue* layers = entry_of(family, "num_hidden_layers");
    if (layers == nullptr) continue;  // the table lacks the family
    EXPECT_EQ(std::ssize(model_of(family.model_type, "").layers),
              *layers->find("default")->integer())
        << family.model_type;
  }
}

// Returns the layer's type in the terms of the class's list.
std::string type_of(const LayerConfig& layer, const std::string& family) {
  const bool hybrid = family == "zaya";
  if (family == "deepseek_v32" || family == "glm_moe_dsa") return "indexed_attention";
  if (layer.mixer != MixerKind::attention && layer.mixer != MixerKind::short_conv)
    return "linear_attention";
  if (layer.chunk > 0) return "chunked_attention";
  if (layer.window > 0) return hybrid ? "hybrid_sliding" : "sliding_attention";
  return hybrid ? "hybrid" : "full_attention";
}

void expect_layer(const std::string& key, const JsonValue& list, const ModelConfig& model,
                  int64_t i) {
  const LayerConfig& layer = model.layers.at(static_cast<size_t>(i));
  const JsonValue::Array& entries = *list.array();
  const std::string where = fmt::format("{}.{}[{}]", model.family, key, i);
  if (key == "layer_types") {
    EXPECT_EQ(type_of(layer, model.family), *entries.at(static_cast<size_t>(i)).string()) << where;
  } else if (key == "no_rope_layers") {
    EXPECT_EQ(layer.rotated ? 1 : 0, *entries.at(static_cast<size_t>(i)).integer()) << where;
  } else if (key == "moe_layers") {
    auto is_this = [&](const JsonValue& value) { return *value.integer() == i; };
    EXPECT_EQ(layer.moe, std::any_of(entries.begin(), entries.end(), is_this)) << where;
  } else if (key == "mlp_layer_types") {
    EXPECT_EQ(layer.moe ? "sparse" : "dense", *entries.at(static_cast<size_t>(i)).string())
        << where;
  } else if (key == "layer_rope_theta") {
    EXPECT_EQ(model.attention_of(layer).rope.theta, *entries.at(static_cast<size_t>(i)).number())
        << where;
  } else if (key == "num_attention_heads_per_layer") {
    EXPECT_EQ(model.attention_of(layer).heads, *entries.at(static_cast<size_t>(i)).integer())
        << where;
  } else {
    ADD_FAILURE() << where << " is not compared";
  }
}

TEST(ClassDefaults, MatchPerLayerLists) {
  size_t compared = 0;
  for (const Family& family : families_of_classes())
    for (const JsonMember& member : *keys_of(family).object()) {
      if (!is_by_layer(member.value) || family.rules.harmless.count(member.key) > 0) continue;
      const int64_t layers = *member.value.find("layers")->integer();
      const ModelConfig model =
          model_of(family.model_type, fmt::format(R"(, "num_hidden_layers": {})", layers));
      for (int64_t i = 0; i < layers; ++i)
        expect_layer(member.key, *member.value.find("computed"), model, i);
      ++compared;
    }
  EXPECT_GE(compared, 6u);
}

// ---- rotation ----------------------------------------------------------------------------------

// Like read_config(), selects the rotation object of the layers' type and makes base, share and
// scaling explicit.
const JsonValue* rotation_of(const Family& family, const JsonValue& config, const JsonValue& made) {
  const JsonValue* types = config.find("layer_types");
  // The type of the first layer in configs without a list.
  const Result<HfConfig> usual = read_with(family.model_type, "");
  const bool has_window = usual && usual->model.layers.front().window > 0;
  const char* first = has_window ? "sliding_attention" : "full_attention";
  for (const std::string& type :
       {types == nullptr ? "hybrid" : *types->array()->at(0).string(), std::string(first)})
    if (const JsonValue* nested = made.find(type)) return nested;
  return &made;
}

double number_in(const JsonValue& object, std::string_view name, double otherwise) {
  const JsonValue* value = object.find(name);
  return value == nullptr ? otherwise : *value->number();
}

RopeConfig expected_rope(const JsonValue& rotation, const ModelConfig& model) {
  RopeConfig rope = model.attention.rope;  // the style is a separate axis
  rope.theta = number_in(rotation, "rope_theta", 0);
  const std::string type = *rotation.find("rope_type")->string();
  rope.scaling = type == "default" ? RopeScaling::none : *parse_enum<RopeScaling>(type);
  const bool proportional = rope.scaling == RopeScaling::proportional;
  rope.share = proportional ? number_in(rotation, "partial_rotary_factor", 1) : 1;
  rope.factor = number_in(rotation, "factor", RopeConfig{}.factor);
  rope.original_max_positions = number_in(rotation, "original_max_position_embeddings",
                                          rope.scaling == RopeScaling::none || proportional
                                              ? rope.original_max_positions
                                              : static_cast<double>(model.max_positions));
  rope.yarn.fast = number_in(rotation, "beta_fast", RopeConfig{}.yarn.fast);
  rope.yarn.slow = number_in(rotation, "beta_slow", RopeConfig{}.yarn.slow);
  const JsonValue* truncate = rotation.find("truncate");
  rope.yarn.truncate = truncate == nullptr ? RopeConfig{}.yarn.truncate : *truncate->boolean();
  return rope;
}

// Number of rotated dims. In latent attention, only a separate part of each head is rotated, whose
// share of the head some classes state.
int64_t expected_dims(const JsonValue& rotation, const ModelConfig& model) {
  const bool latent = model.attention.latent.has_value();
  const int64_t part = model.family == "mistral4" ? model.attention.latent->key_dims + 64 : 64;
  const auto head = static_cast<double>(latent ? part : model.attention.head_dim);
  if (model.attention.rope.scaling == RopeScaling::proportional) return model.attention.head_dim;
  return static_cast<int64_t>(head * number_in(rotation, "partial_rotary_factor", 1));
}

std::string members_of(const JsonValue& config) {
  std::string members = R"(, "num_hidden_layers": 6)";
  for (const JsonMember& member : *config.object())
    members += fmt::format(", \"{}\": {}", member.key, to_string(member.value, 4000));
  return members;
}

// Returns whether the descriptor lists this rotation type as supported by the reference model.
bool takes(const Family& family, const JsonValue& rotation) {
  const auto rule = family.concepts.find("rotation");
  if (rule == family.concepts.end() || rule->second.only.empty()) return true;
  const std::vector<std::string>& only = rule->second.only;
  return std::find(only.begin(), only.end(), *rotation.find("rope_type")->string()) != only.end();
}

// Expects that the class and the reader agree on a config, or that the reader rejects a rotation
// key that the descriptor does not know.
void expect_rotation(const Family& family, const JsonValue& config, const JsonValue& made) {
  const Result<HfConfig> read = read_with(family.model_type, members_of(config));
  const std::string where = family.model_type + " " + to_string(config, 200);
  if (!read && config.find("partial_rotary_factor") != nullptr)
    return expect_error(read,
                        family.rules.must.contains("partial_rotary_factor")
                            ? "hf.config.unsupported_value"
                            : "hf.config.unknown_key",
                        "partial_rotary_factor");
  if (!read && family.rules.must.contains("rope_scaling") && config.find("rope_scaling") != nullptr)
    return expect_error(read, "hf.config.unsupported_value", "rope_scaling");
  // cohere2_moe refuses null, and fails later without a base; the reader takes the defaults.
  if (read && family.model_type == "cohere2_moe" && config.find("rope_parameters") != nullptr &&
      (made.string() != nullptr || made.find("rope_theta") == nullptr)) {
    EXPECT_EQ(read->model.attention.rope.theta, 10000) << where;
    return;
  }
  // The class ignores a base next to a default rotation that states one.
  if (!read && family.model_type == "mistral4" && config.find("rope_theta") != nullptr &&
      !made.string() && takes(family, made))
    return expect_error(read, "hf.config.conflict", "rope_theta");
  const bool refused =
      made.string() != nullptr || !takes(family, *rotation_of(family, config, made));
  ASSERT_EQ(read.has_value(), !refused) << where << (read ? "" : render(read.error()));
  if (refused) return;
  const JsonValue& rotation = *rotation_of(family, config, made);
  EXPECT_EQ(read->model.attention.rope, expected_rope(rotation, read->model)) << where;
  EXPECT_EQ(read->model.attention.rope.dims, expected_dims(rotation, read->model)) << where;
}

TEST(ClassDefaults, MatchTheRotation) {
  for (const Family& family : families_of_classes()) {
    const JsonValue* cases = entry_of(family).find("rope")->find("cases");
    if (cases == nullptr) continue;  // the table lacks the family
    for (const JsonValue& one : *cases->array())
      expect_rotation(family, *one.find("config"), *one.find("rope_parameters"));
  }
}

// ---- single defaults, each in a config without its key -----------------------------------------

// A small model of the family whose config omits only the tested keys.
std::string small_of(const std::string& family, const std::string& members) {
  return fmt::format(R"({{"model_type": "{}", "hidden_size": 32, "num_hidden_layers": 4,
      "num_attention_heads": 4, "vocab_size": 50, "max_position_embeddings": 64, {}}})",
                     family, members);
}

ModelConfig small(const std::string& family, const std::string& members) {
  Result<HfConfig> config = read_config(small_of(family, members), "config.json");
  EXPECT_TRUE(config.has_value()) << render(config.error());
  return config ? std::move(config->model) : ModelConfig{};
}

void expect_refused_small(const std::string& family, const std::string& members,
                          const std::string& code, const std::string& part) {
  expect_error(read_config(small_of(family, members), "config.json"), code, part);
}

const char* const kLatentKeys =
    R"("num_key_value_heads": 4, "kv_lora_rank": 8, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
    "v_head_dim": 8, "intermediate_size": 24, "moe_intermediate_size": 12, "n_routed_experts": 16,
    "num_experts_per_tok": 2)";

TEST(AbsentKey, SetsDeepseekV3Routing) {
  const ModelConfig model = small("deepseek_v3", kLatentKeys);
  ASSERT_TRUE(model.attention.latent.has_value());
  EXPECT_EQ(model.moe.routing.scale, 2.5);
  EXPECT_EQ(model.moe.routing.groups, 8);
  EXPECT_EQ(model.moe.routing.groups_kept, 4);
  EXPECT_EQ(model.moe.shared_ff, 12) << "one shared expert";
  EXPECT_EQ(model.attention.latent->q_rank, 1536);
  EXPECT_EQ(moe_layers(model), (std::vector<bool>{false, false, false, true}));
}

TEST(AbsentKey, DeepseekV3KeepsFourGroups) {
  const ModelConfig model = small("deepseek_v3", std::string(kLatentKeys) + R"(, "n_group": 4)");
  EXPECT_EQ(model.moe.routing.groups_kept, 4);
  expect_refused_small("deepseek_v3", std::string(kLatentKeys) + R"(, "n_group": 2)",
                       "model.groups", "\"topk_group\" is missing and defaults to 4");
}

TEST(AbsentKey, DeepseekV3RejectsNullGroups) {
  expect_refused_small("deepseek_v3", std::string(kLatentKeys) + R"(, "n_group": null)",
                       "hf.config.missing_key",
                       "experts are selected in groups, but \"n_group\" is missing");
}

TEST(AbsentKey, DeepseekV2RequiresGroups) {
  const ModelConfig model = small("deepseek_v2", kLatentKeys);
  EXPECT_EQ(model.moe.routing.groups, 1) << "greedy ignores groups";
  EXPECT_EQ(model.moe.shared_ff, 24) << "two shared experts";
  const std::string grouped =
      std::string(kLatentKeys) + R"(, "topk_method": "group_limited_greedy")";
  expect_refused_small("deepseek_v2", grouped, "hf.config.missing_key", "\"n_group\" is missing");
  expect_refused_small("deepseek_v2", grouped + R"(, "n_group": 4)", "hf.config.missing_key",
                       "\"topk_group\" is missing");
}

const char* const kFour = R"("num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4,
    "num_experts_per_tok": 2, "intermediate_size": 12)";

TEST(AbsentKey, GptOssScalesTheRotation) {
  for (const char* family : {"gpt_oss", "openai_privacy_filter"})
    for (const char* members : {"", R"(, "rope_scaling": null)", R"(, "rope_scaling": {})",
                                R"(, "rope_parameters": null)", R"(, "rope_theta": 150000)"}) {
      const RopeConfig rope = small(family, kFour + std::string(members)).attention.rope;
      EXPECT_EQ(rope.scaling, RopeScaling::yarn) << family << members;
      EXPECT_EQ(rope.factor, 32) << family << members;
      EXPECT_EQ(rope.theta, 150000) << family << members;
      EXPECT_EQ(rope.original_max_positions, 4096) << family << members;
      EXPECT_FALSE(rope.yarn.truncate) << family << members;
    }
  const std::string plain = kFour + std::string(R"(, "rope_parameters": {"rope_type": "default"})");
  EXPECT_EQ(small("gpt_oss", plain).attention.rope.scaling, RopeScaling::none);
}

TEST(AbsentKey, GptOssSlidesInEvenLayers) {
  const ModelConfig model = small("gpt_oss", kFour);
  ASSERT_EQ(model.layers.size(), 4u);
  EXPECT_EQ(model.layers[0].window, 128);
  EXPECT_EQ(model.layers[1].window, 0);
  expect_refused_small("gpt_oss", kFour + std::string(R"(, "sliding_window": null)"),
                       "hf.config.type",
                       "\"sliding_window\" is null; the default, 128, applies only");
}

TEST(AbsentKey, PrivacyFilterHasWindowAndLabels) {
  const ModelConfig model = small("openai_privacy_filter", kFour);
  ASSERT_EQ(model.layers.size(), 4u);
  EXPECT_EQ(model.layers[0].ahead, 128);
  EXPECT_EQ(model.layers[3].window, 129) << "itself included";
  ASSERT_EQ(model.head.labels.size(), 33u);
  EXPECT_EQ(model.head.labels[1], "B-account_number");
  expect_refused_small("openai_privacy_filter", kFour + std::string(R"(, "sliding_window": null)"),
                       "hf.config.type",
                       "\"sliding_window\" is null; the default, 128, applies only");
}

const char* const kSmallZaya = R"("num_key_value_heads": 2, "head_dim": 8, "num_experts": 4,
    "moe_intermediate_size": 12)";

TEST(AbsentKey, ZayaRotatesByLayerType) {
  EXPECT_EQ(small("zaya", kSmallZaya).attention.rope.theta, 5e6);
  const std::string slide = kSmallZaya + std::string(R"(, "sliding_window": 5, "layer_types":
      ["hybrid_sliding", "hybrid_sliding", "hybrid_sliding", )");
  const ModelConfig model = small("zaya", slide + R"("hybrid_sliding"])");
  EXPECT_EQ(model.attention.rope.theta, 1e4);
  EXPECT_EQ(model.attention.rope.dims, 4);
  const ModelConfig both = small("zaya", slide + R"("hybrid"])");
  ASSERT_EQ(both.rotations().size(), 2u);
  EXPECT_EQ(both.rotations()[0].theta, 1e4);
  EXPECT_EQ(both.rotations()[1].theta, 5e6);
}

// The reference model fails on these configs, although the config class accepts them.
TEST(AbsentKey, RejectsWhatTheReferenceCannotCompute) {
  std::string latent = kLatentKeys;
  latent.erase(0, latent.find("\"kv_lora_rank\""));
  expect_refused_small("deepseek_v3", latent, "hf.config.unsupported_value",
                       "by default \"num_key_value_heads\" is 128");
  expect_refused_small("deepseek_v2", latent + R"(, "num_key_value_heads": 2)",
                       "hf.config.unsupported_value", "\"num_key_value_heads\" is 2");
  EXPECT_TRUE(small("deepseek_v2", latent).attention.latent.has_value());
  for (const char* scaling : {"null", "{}"})
    expect_refused_small("zaya", fmt::format(R"({}, "rope_scaling": {})", kSmallZaya, scaling),
                         "hf.config.unsupported_value", "remove \"rope_scaling\"");
  for (const char* family : {"mixtral", "phimoe", "openai_privacy_filter"})
    expect_refused_small(family, kFour + std::string(R"(, "sliding_window": 0)"),
                         "hf.config.window", "\"sliding_window\" is 0");
}

TEST(AbsentKey, IgnoresAnUnusedZeroWindow) {
  const ModelConfig model =
      small("qwen3_moe", R"("num_key_value_heads": 2, "head_dim": 8, "num_experts": 4,
      "num_experts_per_tok": 2, "moe_intermediate_size": 12, "sliding_window": 0)");
  EXPECT_EQ(model.layers.at(0).window, 0);
}

TEST(AbsentKey, ZayaIgnoresAnOuterBase) {
  Result<HfConfig> config = read_config(
      small_of("zaya", kSmallZaya + std::string(R"(, "rope_theta": 123)")), "config.json");
  ASSERT_TRUE(config.has_value()) << render(config.error());
  EXPECT_EQ(config->model.attention.rope.theta, 5e6);
  ASSERT_EQ(config->warnings.size(), 1u);
  EXPECT_EQ(config->warnings[0].code, "hf.config.rope_outside");
  auto refused = [](const char* rotation, const char* part) {
    expect_refused_small("zaya", kSmallZaya + std::string(rotation), "hf.config.missing_key", part);
  };
  refused(R"(, "rope_parameters": {"hybrid": {"rope_type": "default"}})", "has no \"rope_theta\"");
  refused(R"(, "rope_parameters": {"rope_type": "default", "rope_theta": 5e6})",
          "must have an object per layer type, because the rotary embeddings of the family zaya");
}

TEST(AbsentKey, UsesHeadCountsOfTheClass) {
  const std::vector<std::pair<const char*, int64_t>> heads = {
      {"ernie4_5_moe", 4}, {"glm4_moe", 8}, {"gpt_oss", 8},    {"llama4_text", 8},
      {"minimax_m2", 8},   {"mixtral", 8},  {"phimoe", 8},     {"qwen2_moe", 16},
      {"qwen3_moe", 4},    {"zaya", 2},     {"granitemoe", 32}};
  for (const auto& [family, kv_heads] : heads)
    EXPECT_EQ(
        model_of(family, R"(, "num_attention_heads": 32, "hidden_size": 4096)").attention.kv_heads,
        kv_heads)
        << family;
}

TEST(AbsentKey, UsesHeadDimsOfTheClass) {
  for (const auto& [family, dims] :
       std::vector<std::pair<const char*, int64_t>>{{"gpt_oss", 64},
                                                    {"openai_privacy_filter", 64},
                                                    {"llama4_text", 128},
                                                    {"minimax_m2", 128},
                                                    {"zaya", 128},
                                                    {"mixtral", 20},
                                                    {"qwen3_moe", 20}})
    EXPECT_EQ(
        model_of(family, R"(, "num_attention_heads": 32, "hidden_size": 640)").attention.head_dim,
        dims)
        << family;
}

TEST(AbsentKey, HunyuanRequiresHeadDim) {
  expect_refused_small("hunyuan_v1_moe", R"("num_experts": 4)", "hf.config.missing_key",
                       "head_dim");
}

TEST(AbsentKey, RejectsNullForANumber) {
  expect_refused_small(
      "mixtral", R"("num_key_value_heads": null)", "hf.config.type",
      "\"num_key_value_heads\" is null; the default, 8, applies only if the key is "
      "absent");
  expect_refused_small("deepseek_v3",
                       std::string(kLatentKeys) + R"(, "routed_scaling_factor": null)",
                       "hf.config.type", "routed_scaling_factor");
  EXPECT_EQ(small("deepseek_v3", std::string(kLatentKeys) + R"(, "q_lora_rank": null)")
                .attention.latent->q_rank,
            0)
      << "null is a distinct value here";
}

}  // namespace
}  // namespace moec
