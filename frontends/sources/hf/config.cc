#include "frontends/sources/hf/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "frontends/sources/config/absent_keys.h"
#include "frontends/sources/config/config_reader.h"
#include "frontends/sources/hf/config_attention.h"
#include "frontends/sources/hf/config_labels.h"
#include "frontends/sources/hf/config_layers.h"
#include "frontends/sources/hf/config_names.h"
#include "frontends/sources/hf/infinities.h"
#include "frontends/sources/hf/inner_keys.h"
#include "frontends/sources/storage/read_storage.h"
#include "models/shards/check_model.h"

namespace moec {
namespace {

// Parses the name of an enum value. Reports names that are unknown, or that the descriptor excludes
// (`only`).
template <class E>
E read_name(ConfigReader& reader, std::string_view concept_name, const std::string& value,
            std::string_view code, std::string_view what) {
  const std::vector<std::string>& only =
      reader.family().concepts.at(std::string(concept_name)).only;
  std::string key = reader.key_of(concept_name);
  std::optional<E> parsed = parse_enum<E>(value);
  if (!parsed) {
    auto names = enum_names(E{});
    reader.error(std::string(code),
                 fmt::format("unknown {} \"{}\" in \"{}\"; known: {}", what, printable(value, 60),
                             key, fmt::join(names, ", ")),
                 reader.at(concept_name));
  } else if (!only.empty() && std::find(only.begin(), only.end(), value) == only.end()) {
    reader.error("hf.config.unsupported_value",
                 fmt::format("\"{}\" is \"{}\"; for the family {} it must be {}", key, value,
                             reader.family().model_type, fmt::join(only, " or ")),
                 reader.at(concept_name));
  }
  // Reading continues with the first value, so that one run reports all errors.
  return parsed.value_or(E{});
}

// Checks the number of channels of the heads against `mixer_inner`, with which some configs repeat
// it.
void check_inner(ConfigReader& reader, const RecurrentConfig& recurrent) {
  const std::optional<int64_t> inner = reader.optional_integer("mixer_inner");
  const int64_t of_heads = recurrent.value_heads * recurrent.value_dim;
  if (!inner || *inner == of_heads) return;
  reader.error(
      "hf.config.conflict",
      fmt::format("{} heads of {} (\"{}\") have {} channels, but \"{}\" implies {}",
                  recurrent.value_heads, recurrent.value_dim, reader.key_of("mixer_value_dim"),
                  of_heads, reader.key_of("mixer_expand"), *inner),
      reader.at("mixer_value_dim"), "correct the wrong one");
}

// Reads the sizes of recurrent mixers; absent for a family without recurrent mixers.
std::optional<RecurrentConfig> read_recurrent(ConfigReader& reader, int64_t hidden) {
  const MixerKind kind = reader.family().axes.mixer;
  if (!is_recurrent(kind)) return std::nullopt;
  RecurrentConfig recurrent;
  recurrent.taps = reader.integer("mixer_taps");
  recurrent.bias = reader.boolean("mixer_bias");
  recurrent.map_bias = reader.boolean("mixer_map_bias");
  recurrent.channels = hidden;
  if (!at(kMixers, kind).heads) return recurrent;
  recurrent.key_heads = reader.integer("mixer_key_heads");
  recurrent.value_heads = reader.integer("mixer_value_heads");
  reader.optional_integer("mixer_head_dim");  // marks a term of expressions as read
  recurrent.key_dim = reader.integer("mixer_key_dim");
  recurrent.value_dim = reader.integer("mixer_value_dim");
  // The convolution runs over queries, keys and values; queries and keys have the same heads.
  recurrent.channels =
      2 * recurrent.key_heads * recurrent.key_dim + recurrent.value_heads * recurrent.value_dim;
  check_inner(reader, recurrent);
  // Read for every such mixer, so that the key is not reported as unknown.
  const double least = reader.number("least_log_decay", 0);
  if (kind == MixerKind::kimi_delta && reader.boolean("use_least_log_decay"))
    recurrent.least_log_decay = least;
  return recurrent;
}

// Returns true if the router first selects expert groups, which it does unless the method is
// "greedy".
bool in_groups(ConfigReader& reader) {
  const std::string method = reader.name("choice_method");
  return method.empty() ||
         read_name<ChoiceMethod>(reader, "choice_method", method, "hf.config.unknown_choice",
                                 "choice method") != ChoiceMethod::greedy;
}

// Reads a number of expert groups; 1 if groups are not in use. Reports a missing key if the class
// in transformers has no default.
int64_t group_count(ConfigReader& reader, std::string_view concept_name, bool in_use) {
  const std::optional<int64_t> count = reader.optional_integer(concept_name);
  if (!count && in_use && reader.family().concepts.count(concept_name) > 0)
    reader.error("hf.config.missing_key",
                 fmt::format("experts are selected in groups, but \"{}\" is missing",
                             reader.key_of(concept_name)),
                 reader.at(concept_name), "add the key with its number");
  return in_use ? count.value_or(1) : 1;
}

Router read_routing(ConfigReader& reader) {
  const FamilyAxes& axes = reader.family().axes;
  Router routing;
  routing.score = read_name<Score>(reader, "score", reader.name("score"), "hf.config.unknown_score",
                                   "scoring function");
  routing.top_k = reader.integer("top_k");
  // Weights of a score that normalizes over the chosen experts must not be normalized again.
  bool renorm = reader.boolean("renorm", true) && !normalises_chosen(routing.score);
  routing.renorm = renorm ? axes.moe.renorm : Renorm::none;
  routing.eps = renorm ? reader.number("renorm_eps", 0) : 0;
  if (picks_two(routing.score)) routing.eps = reader.number("mixer_eps", 0);
  routing.scale = reader.number("routed_scale", 1);
  const bool grouped = in_groups(reader);
  routing.groups = group_count(reader, "groups", grouped);
  routing.groups_kept = group_count(reader, "groups_kept", grouped);
  routing.group_score = axes.moe.group_score;
  return routing;
}

void read_shared_expert(ConfigReader& reader, MoeConfig& moe) {
  const SharedExpert shared = reader.family().axes.moe.shared_expert;
  if (shared == SharedExpert::none) return;
  moe.shared_ff = reader.integer("shared_ff");
  moe.shared_gated = shared == SharedExpert::sigmoid_gated;
  moe.parts_normed = shared == SharedExpert::normed;
  if (reader.family().concepts.count("shared_sum") == 0) return;
  const auto sum = read_name<SharedSum>(reader, "shared_sum", reader.name("shared_sum"),
                                        "hf.config.unsupported_value", "combination of experts");
  moe.shared_averaged = sum == SharedSum::average && moe.shared_ff > 0;
}

MoeConfig read_moe(ConfigReader& reader) {
  MoeConfig moe;
  if (!reader.family().has_experts()) return moe;
  moe.experts = reader.integer("experts");
  moe.expert_ff = reader.integer("expert_ff");
  moe.latent = reader.optional_integer("expert_latent").value_or(0);
  moe.routing = read_routing(reader);
  moe.router_map.bias = reader.boolean("router_bias");
  moe.router_map.softcap = reader.number("router_softcap", 0);
  if (reader.family().axes.moe.router == RouterKind::carried_mlp)
    moe.router_hidden = reader.integer("router_hidden");
  moe.router_map.normed = reader.family().axes.moe.router == RouterKind::normed;
  moe.null_slots = reader.integer("null_slots");
  moe.choice_bias = reader.boolean("choice_bias");
  moe.expert_biases = reader.boolean("expert_biases");
  moe.weight_on = reader.family().axes.moe.routed_weight;
  moe.gate_up_order = reader.family().axes.moe.gate_up_order;
  read_shared_expert(reader, moe);
  return moe;
}

Gating read_gating(ConfigReader& reader) {
  std::string name = reader.name("activation");
  if (name == "swish") name = "silu";  // two names of the same function
  if (name == "gelu_pytorch_tanh") name = "gelu_tanh";
  const auto activation = read_name<Activation>(reader, "activation", name,
                                                "hf.config.unknown_activation", "activation");
  // Read for every activation, so that the keys are not reported as unknown.
  const double limit = reader.number("swiglu_limit", 0), alpha = reader.number("swiglu_alpha", 0);
  Gating gating{activation};
  if (gating.is_clamped()) gating = {activation, limit, alpha};
  const MlpKind kind = reader.family().axes.mlp;
  if (gating.has_gate() != (kind == MlpKind::gated))
    reader.error(
        "hf.config.unsupported_value",
        fmt::format("\"{}\" is \"{}\", which is not supported in MLPs {} a gate, as in the family "
                    "{}",
                    reader.key_of("activation"), name, kind == MlpKind::gated ? "with" : "without",
                    reader.family().model_type),
        reader.at("activation"));
  return gating;
}

// Limits the context to the number of keys that an indexer selects. Within this limit, attention
// sees all keys, so no indexer is needed; moec does not support indexers.
void limit_to_chosen_keys(ConfigReader& reader, ModelConfig& model) {
  if (reader.family().concepts.count("chosen_keys") == 0) return;
  // Marks the factors of the expression as read.
  for (const char* factor : {"chosen_blocks", "block_keys"}) reader.optional_integer(factor);
  const int64_t chosen = reader.integer("chosen_keys");
  if (!has_indexed_layers(reader) || chosen >= model.max_positions) return;
  const bool in_blocks = reader.family().concepts.count("chosen_blocks") > 0;
  const char* const said = in_blocks ? "chosen_blocks" : "chosen_keys";
  reader.remark("hf.config.indexer",
                fmt::format("the context is limited to {} tokens (\"{}\"); for longer contexts, an "
                            "indexer selects the keys, which moec does not support",
                            chosen, reader.key_of(said)),
                reader.at(said));
  model.max_positions = chosen;
}

// Sets the norms of the block, and the input of its feed-forward part.
void read_block(BlockKind block, StreamConfig& stream) {
  struct Facts {
    bool pre_norms = true;
    PostNorms post_norms = PostNorms::none;
    bool parallel = false;
  };
  const Facts facts = at(enum_table<BlockKind, Facts>({{true, PostNorms::none},
                                                       {true, PostNorms::all},
                                                       {true, PostNorms::moe},
                                                       {false, PostNorms::all},
                                                       {true, PostNorms::none, true}}),
                         block);
  stream.pre_norms = facts.pre_norms;
  stream.post_norms = facts.post_norms;
  stream.parallel = facts.parallel;
}

NormConfig read_norm(ConfigReader& reader) {
  const double eps = reader.number("norm_eps");
  if (const std::optional<double> rms = reader.optional_number("rms_norm_eps"))
    return {NormKind::rms, *rms};
  return {reader.family().axes.norm, eps};
}

// Returns the divisor of the logits, from the config's divisor or factor.
double read_logits_divisor(ConfigReader& reader) {
  const double divisor = reader.number("logits_divisor", 1);
  const double scale = reader.number("logits_scale", 1);
  if (scale == 0)
    reader.error(
        "hf.config.unsupported_value",
        fmt::format("\"{}\" is 0, which makes all logits 0", reader.key_of("logits_scale")),
        reader.at("logits_scale"));
  return divisor / scale;
}

ModelConfig read_model(ConfigReader& reader) {
  ModelConfig model;
  model.family = reader.family().model_type;
  model.head.task = reader.family().axes.task;
  if (model.head.task == Task::token_classification) model.head.labels = read_labels(reader);
  model.hidden = reader.integer("hidden");
  model.vocab = reader.integer("vocab");
  model.max_positions = reader.integer("max_positions");
  model.norm = read_norm(reader);
  model.stream.residual = reader.family().axes.residual;
  const double embedding_scale = reader.number("embedding_scale", 1);
  model.stream.embedding_scale = reader.boolean("use_embedding_scale", true) ? embedding_scale : 1;
  model.stream.residual_scale = reader.number("residual_scale", 1);
  read_block(reader.family().axes.block, model.stream);
  model.stream.layer_scale = reader.boolean("layer_scale");
  model.head.divisor = read_logits_divisor(reader);
  model.head.softcap = reader.optional_number("logits_softcap").value_or(0);
  model.mlp.gating = read_gating(reader);
  model.mlp.bias = reader.boolean("mlp_bias");
  model.mlp.ff = reader.optional_integer("dense_ff").value_or(0);
  model.head.tied = reader.boolean("tied_head");
  model.head.bias = reader.boolean("head_bias");
  model.recurrent = read_recurrent(reader, model.hidden);
  model.moe = read_moe(reader);
  // Rotary scaling depends on the config's number of positions, not on the limited one.
  const int64_t positions = model.max_positions;
  limit_to_chosen_keys(reader, model);
  read_attention(reader, {read_layers(reader, model), positions}, model);
  model.stored = read_storage(reader);
  model.names = read_names(reader, model);
  return model;
}

Result<JsonValue> parse_config(std::string_view text, const JsonSource& source) {
  // Python's json module writes Infinity, which is not JSON.
  MOEC_ASSIGN(JsonValue root, parse_json(with_infinities(text), source));
  if (root.object() != nullptr) return root;
  return fail("hf.config.not_object", "the config is not a JSON object",
              "use the config.json of a checkpoint", {.file = source.file});
}

Result<std::string> type_in(const JsonValue& root, const JsonSource& source) {
  const JsonValue* type = root.find("model_type");
  if (type != nullptr && type->string() != nullptr) return *type->string();
  return fail("hf.config.model_type",
              "the string \"model_type\", which names the family, is missing",
              "use the config.json of a Hugging Face checkpoint", {.file = source.file});
}

Result<const Family*> choose_family(const std::string& type, const JsonSource& source,
                                    const Family* user_family) {
  if (user_family != nullptr) {
    if (const Family* family = family_for(*user_family, type)) return family;
    return fail(
        "hf.family.mismatch",
        fmt::format("the family file describes \"{}\", but the model_type of the config is \"{}\"",
                    user_family->model_type, printable(type, 60)),
        "pass the family file of this checkpoint, or omit --family-file", {.file = source.file});
  }
  Result<const Family*> family = find_family(type);
  if (!family) family.error().front().place.file = source.file;
  return family;
}

// Returns the object of a config that the family describes: the whole config, or the text model
// inside it.
Result<const JsonValue*> text_config(const JsonValue& root, const Family& family,
                                     std::string_view text, const JsonSource& source) {
  if (!family.outer) return &root;
  const JsonValue* inside = root.find(family.outer->key);
  if (inside == nullptr || inside->object() == nullptr)
    return fail("hf.config.missing_key",
                fmt::format("a config of \"{}\" must have its text model in the object \"{}\", "
                            "which is missing",
                            family.outer->model_type, family.outer->key),
                "use the config.json of a whole checkpoint", {.file = source.file});
  const JsonValue* type = inside->find("model_type");
  const std::string& other = family.outer->type;
  const auto fits = [&](const std::string& name) {
    return other.empty() ? describes(family, name) : name == other;
  };
  // The inner config may omit its type.
  if (type == nullptr || (type->string() != nullptr && fits(*type->string()))) return inside;
  return fail("hf.family.unsupported",
              fmt::format("the text model inside \"{}\" is {}; only \"{}\" is supported",
                          family.outer->model_type, to_string(*type, 60),
                          other.empty() ? family.model_type : other),
              kMendConfig, json_place(text, source, type->offset));
}

// Runs check_model(). Adds to each finding the missing keys with defaults that may have caused it.
Diagnostics check_with_defaults(const HfConfig& config) {
  Diagnostics findings = check_model(config.model);
  // The default may be wrong for this checkpoint, so the next step begins with the absent keys.
  for (Diagnostic& finding : findings)
    finding.next_step.insert(
        0, absent_keys_of_finding({*config.family, config.concepts}, finding.code));
  return findings;
}

}  // namespace

Result<std::string> model_type_of(std::string_view text, const std::string& file) {
  const JsonSource source{.file = file};
  MOEC_ASSIGN(const JsonValue root, parse_config(text, source));
  return type_in(root, source);
}

Status refuse_plan_only(const std::string& family, const std::string& why,
                        const std::string& file) {
  if (why.empty()) return {};
  return fail("hf.family.plan_only",
              fmt::format("models of the family {} can only be planned: {}", family, why),
              "run moec plan with the config.json, or choose a model of another family",
              {.file = file});
}

Result<ExplainedConfig> explain_config(std::string_view text, const std::string& file,
                                       const Family* user_family) {
  JsonSource source{.file = file};
  MOEC_ASSIGN(const JsonValue root, parse_config(text, source));
  ExplainedConfig explained;
  HfConfig& config = explained.config;
  MOEC_ASSIGN(const std::string type, type_in(root, source));
  MOEC_ASSIGN(config.family, choose_family(type, source, user_family));
  MOEC_ASSIGN(const JsonValue* inside, text_config(root, *config.family, text, source));
  MOEC_ASSIGN(const JsonValue opened, with_inner_keys(*inside, *config.family, text, source));
  ConfigReader reader(text, source, opened, *config.family, inside == &root ? nullptr : &root);
  config.model = read_model(reader);
  // Must follow read_model(), which marks the keys that the family reads.
  reader.check_other_keys();
  explained.errors = reader.take_errors();
  config.warnings = reader.take_warnings();
  config.concepts = reader.concepts();
  config.other_keys = reader.other_keys();
  // Findings about the model would often follow from errors of the config.
  if (explained.errors.empty()) explained.errors = check_with_defaults(config);
  for (Diagnostic& error : explained.errors)
    if (error.place.file.empty()) error.place.file = file;
  return explained;
}

Result<HfConfig> read_config(std::string_view text, const std::string& file,
                             const Family* user_family) {
  MOEC_ASSIGN(ExplainedConfig explained, explain_config(text, file, user_family));
  if (!explained.errors.empty()) return fail(std::move(explained.errors));
  return std::move(explained.config);
}

}  // namespace moec
