#include "frontends/hf/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "frontends/hf/absent_keys.h"
#include "frontends/hf/config_labels.h"
#include "frontends/hf/config_reader.h"
#include "frontends/hf/config_rope.h"
#include "frontends/hf/config_storage.h"
#include "models/build/check_model.h"
#include "models/tensors/mla_form.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

// Parses a name of an enum; where the descriptor restricts the names (`only`), others are errors.
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
  return parsed.value_or(E{});
}

// All heads read one latent. The reference repeats the keys that it makes of it once for each key
// head of the config, which works out only where every head has its own.
void check_latent_heads(ConfigReader& reader, const AttentionConfig& attention) {
  if (attention.kv_heads == attention.heads) return;
  const JsonValue* given = reader.at("kv_heads");
  reader.error("hf.config.unsupported_value",
               fmt::format("{}\"{}\" is {}; with latent attention it must be \"{}\", {}",
                           given == nullptr ? "by default " : "", reader.key_of("kv_heads"),
                           attention.kv_heads, reader.key_of("heads"), attention.heads),
               given, "Set it to the number of heads.");
}

void read_latent(ConfigReader& reader, AttentionConfig& attention) {
  check_latent_heads(reader, attention);
  LatentConfig latent;
  latent.q_rank = reader.optional_integer("q_rank").value_or(0);
  latent.kv_rank = reader.integer("kv_rank");
  latent.key_dims = reader.integer("key_dims");
  latent.value_dims = reader.integer("value_dims");
  latent.norm_eps = reader.number("latent_norm_eps", 0);
  const auto score_dims = static_cast<double>(latent.key_dims + attention.rope.dims);
  attention.scale = rope_score_scale(attention.rope) / std::sqrt(std::max(1.0, score_dims));
  attention.latent = latent;
  choose_mla(attention, MlaForm::latent);
}

std::optional<QueryTemperature> read_temperature(ConfigReader& reader) {
  const QueryTemperature temperature{reader.number("temperature_scale", 0),
                                     reader.number("temperature_step", 1)};
  // Configs of the Llama 4 release (2025) have the integer 4 where later ones have true.
  const JsonValue* said = reader.at("use_temperature");
  if (said != nullptr && said->integer() != nullptr) {
    reader.key(reader.key_of("use_temperature"));
    return *said->integer() != 0 ? std::optional(temperature) : std::nullopt;
  }
  return reader.boolean("use_temperature") ? std::optional(temperature) : std::nullopt;
}

AttentionConfig read_attention(ConfigReader& reader, int64_t max_positions) {
  AttentionConfig attention;
  attention.heads = reader.integer("heads");
  attention.kv_heads = reader.integer("kv_heads");
  attention.head_dim = attention.value_dim = reader.integer("head_dim");
  double usual_scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(1, attention.head_dim)));
  attention.scale = reader.number("attention_scale", usual_scale);
  attention.qkv_bias = reader.boolean("qkv_bias");
  attention.o_bias = reader.boolean("o_bias");
  if (reader.boolean("use_qk_norm", true)) attention.qk_norm = reader.family().axes.qk_norm;
  attention.temperature = read_temperature(reader);
  attention.sinks = reader.boolean("sinks");
  attention.clip_qkv = reader.optional_number("clip_qkv");
  attention.rope = read_rope(reader, attention.head_dim, max_positions);
  if (reader.family().axes.attention == AttentionKind::mla) read_latent(reader, attention);
  if (reader.family().axes.attention == AttentionKind::cca)
    attention.convolved =
        ConvolvedConfig{reader.integer("channel_taps"), reader.integer("head_taps")};
  return attention;
}

// Whether the router selects groups of experts first; with the method "greedy" it does not.
bool in_groups(ConfigReader& reader) {
  const std::string method = reader.name("choice_method");
  return method.empty() ||
         read_name<ChoiceMethod>(reader, "choice_method", method, "hf.config.unknown_choice",
                                 "choice method") != ChoiceMethod::greedy;
}

// A number of groups where they are in use. Some classes have no default: a model that needs the
// number cannot be built without it.
int64_t group_count(ConfigReader& reader, std::string_view concept_name, bool in_use) {
  const std::optional<int64_t> count = reader.optional_integer(concept_name);
  if (!count && in_use && reader.family().concepts.count(concept_name) > 0)
    reader.error("hf.config.missing_key",
                 fmt::format("experts are chosen in groups, and \"{}\" is not given",
                             reader.key_of(concept_name)),
                 reader.at(concept_name), "Add the key with its number.");
  return in_use ? count.value_or(1) : 1;
}

Router read_routing(ConfigReader& reader) {
  const FamilyAxes& axes = reader.family().axes;
  Router routing;
  routing.score = read_name<Score>(reader, "score", reader.name("score"), "hf.config.unknown_score",
                                   "scoring function");
  routing.top_k = reader.integer("top_k");
  bool renorm = reader.boolean("renorm", true) && routing.score != Score::softmax_selected;
  routing.renorm = renorm ? axes.renorm : Renorm::none;
  routing.eps = renorm ? reader.number("renorm_eps", 0) : 0;
  if (routing.score == Score::sparsemixer) routing.eps = reader.number("mixer_eps", 0);
  routing.scale = reader.number("routed_scale", 1);
  const bool grouped = in_groups(reader);
  routing.groups = group_count(reader, "groups", grouped);
  routing.groups_kept = group_count(reader, "groups_kept", grouped);
  routing.group_score = axes.group_score;
  return routing;
}

MoeConfig read_moe(ConfigReader& reader) {
  MoeConfig moe;
  moe.experts = reader.integer("experts");
  moe.expert_ff = reader.integer("expert_ff");
  moe.routing = read_routing(reader);
  moe.router_bias = reader.boolean("router_bias");
  if (reader.family().axes.router == RouterKind::carried_mlp)
    moe.router_hidden = reader.integer("router_hidden");
  moe.null_slots = reader.integer("null_slots");
  moe.choice_bias = reader.boolean("choice_bias");
  moe.expert_biases = reader.boolean("expert_biases");
  moe.weight_on = reader.family().axes.routed_weight;
  moe.gate_up_order = reader.family().axes.gate_up_order;
  SharedExpert shared = reader.family().axes.shared_expert;
  if (shared != SharedExpert::none) moe.shared_ff = reader.integer("shared_ff");
  moe.shared_gated = shared == SharedExpert::sigmoid_gated;
  return moe;
}

bool lists(const std::vector<int64_t>& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// Sets which layers have experts: by the config's own list, else by the descriptor's rule.
void read_moe_layers(ConfigReader& reader, ModelConfig& model) {
  const int64_t step = reader.integer("moe_step", 1), first = reader.integer("first_moe_layer", 0);
  const int64_t last = reader.optional_integer("last_moe_layer").value_or(-1);
  const std::vector<int64_t> dense = reader.integers("dense_layers");
  const std::optional<std::vector<int64_t>> listed = reader.optional_integers("moe_layers");
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const auto layer = static_cast<int64_t>(i);
    const bool by_rule = layer >= first && (last < 0 || layer <= last) &&
                         (layer + reader.family().moe_offset) % step == 0 && !lists(dense, layer);
    model.layers[i].moe = model.moe.experts > 0 && (listed ? lists(*listed, layer) : by_rule);
    model.layers[i].takes_router_state =
        model.moe.router_hidden > 0 && model.layers[i].moe && i > 0 && model.layers[i - 1].moe;
  }
}

// Sets which layers apply rotary embeddings: by the config's own list of ones and zeros, else by
// the descriptor's rule.
void read_rotated_layers(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  const int64_t step = reader.integer("unrotated_step", 0);
  const std::vector<int64_t> listed = reader.integers("rotated_layers");
  if (!listed.empty() && !reader.has_one_a_layer("rotated_layers", listed.size())) return;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool by_rule = step == 0 || (static_cast<int64_t>(i) + 1) % step != 0;
    layers[i].rotated = listed.empty() ? by_rule : listed[i] != 0;
  }
}

// Which keys a layer attends to: all of them, a sliding window, or those of the same chunk.
enum class Span : uint8_t { all, window, chunk };

std::optional<Span> parse_span(const std::string& layer_type) {
  if (layer_type == "full_attention" || layer_type == "hybrid") return Span::all;
  if (layer_type == "sliding_attention" || layer_type == "hybrid_sliding") return Span::window;
  if (layer_type == "chunked_attention") return Span::chunk;
  return std::nullopt;
}

// Spans by the descriptor's rule. Layers without rotation attend to all keys even where the model
// has chunks. Where even layers slide they do so with or without a window: a missing one is an
// error.
std::vector<Span> default_spans(ConfigReader& reader, const std::vector<LayerConfig>& layers,
                                bool window, bool chunk) {
  const bool slides = reader.boolean("use_window", true);
  const WindowRule rule = reader.family().axes.window;
  const int64_t below = reader.integer("max_window_layers", 0);
  std::vector<Span> spans(layers.size(), Span::all);
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool even_below = i % 2 == 0 && static_cast<int64_t>(i) < below;
    if ((window && rule == WindowRule::all_layers) ||
        (slides && rule == WindowRule::even_layers_below_max && even_below))
      spans[i] = Span::window;
    else if (chunk && layers[i].rotated)
      spans[i] = Span::chunk;
  }
  return spans;
}

// Spans by the config's own list `layer_types`, which overrides the descriptor's rule.
void read_layer_types(ConfigReader& reader, std::vector<Span>& spans) {
  std::optional<std::vector<std::string>> types = reader.optional_names("layer_types");
  if (!types || !reader.has_one_a_layer("layer_types", types->size())) return;
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::optional<Span> span = parse_span((*types)[i]);
    if (!span)
      reader.error("hf.config.unknown_layer_type",
                   fmt::format("unknown layer type \"{}\"; known: full_attention, "
                               "sliding_attention, chunked_attention, hybrid, hybrid_sliding",
                               printable((*types)[i], 60)),
                   reader.at("layer_types"));
    spans[i] = span.value_or(Span::all);
  }
}

// A bidirectional model attends forwards as well, as far as backwards; `window` counts the query
// itself, so it grows by one.
void apply_direction(ConfigReader& reader, int64_t max_positions,
                     std::vector<LayerConfig>& layers) {
  if (reader.family().axes.direction == Direction::causal) return;
  for (LayerConfig& layer : layers) {
    layer.ahead = layer.window > 0 ? layer.window : max_positions;
    if (layer.window > 0) ++layer.window;
  }
}

// In a window of 0 a token sees no key, or only itself where a model looks both ways.
void refuse_empty_window(ConfigReader& reader, std::optional<int64_t> window) {
  if (window == 0 && reader.boolean("use_window", true) &&
      reader.family().axes.window == WindowRule::all_layers)
    reader.error("hf.config.window",
                 fmt::format("\"{}\" is 0, which hides every other token", reader.key_of("window")),
                 reader.at("window"), "Set the width of the window, or null for none.");
}

void read_spans(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  const std::optional<int64_t> given = reader.optional_integer("window");
  refuse_empty_window(reader, given);
  const int64_t window = given.value_or(0);
  const int64_t chunk = reader.optional_integer("chunk").value_or(0);
  const bool window_in_use = reader.boolean("use_window", true) && window > 0;
  std::vector<Span> spans = default_spans(reader, layers, window_in_use, chunk > 0);
  read_layer_types(reader, spans);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (spans[i] == Span::window) layers[i].window = window;
    if (spans[i] == Span::chunk) layers[i].chunk = chunk;
    if (spans[i] == Span::window && !window_in_use)
      return reader.error("hf.config.window",
                          fmt::format("layer {} slides, but no window is in use", i),
                          reader.at("window"),
                          "Set sliding_window (and use_sliding_window), or make the layer "
                          "full_attention.");
    if (spans[i] == Span::chunk && chunk == 0)
      return reader.error(
          "hf.config.window", fmt::format("layer {} sees chunks, but their size is not given", i),
          reader.at("chunk"), "Set attention_chunk_size, or make the layer full_attention.");
  }
}

// Expands a pattern of the descriptor: one copy for each multi-token-prediction layer where it has
// the placeholder of these, else the pattern itself.
std::vector<std::string> spell_out(const std::string& pattern, int64_t layers, int64_t mtp_layers) {
  const size_t at = pattern.find(kMtpLayer);
  if (at == std::string::npos) return {pattern};
  std::vector<std::string> patterns;
  for (int64_t layer = layers; layer < layers + mtp_layers; ++layer)
    patterns.push_back(std::string(pattern).replace(at, kMtpLayer.size(), std::to_string(layer)));
  return patterns;
}

TensorNames first_names(ConfigReader& reader, int64_t layers) {
  const Family& family = reader.family();
  TensorNames names;
  for (const auto& [role, templates] : family.tensors) names.by_role[role] = templates.front();
  // Only the files show whether experts are stored one by one or fused (resolve_names decides);
  // until they are read, one by one is assumed.
  if (names.has("expert_gate")) {
    names.by_role.erase("experts_gate_up");
    names.by_role.erase("experts_down");
  }
  const int64_t mtp_layers = reader.integer("mtp_layers");
  for (const auto& [pattern, why] : family.ignored_tensors)
    for (std::string& ignored : spell_out(pattern, layers, mtp_layers))
      names.ignored.push_back(std::move(ignored));
  return names;
}

Gating read_gating(ConfigReader& reader) {
  std::string name = reader.name("activation");
  if (name == "swish") name = "silu";  // two names of one function
  const auto activation = read_name<Activation>(reader, "activation", name,
                                                "hf.config.unknown_activation", "activation");
  const Gating clamped{activation, reader.number("swiglu_limit", 0),
                       reader.number("swiglu_alpha", 0)};
  return activation == Activation::silu ? Gating{} : clamped;
}

ModelConfig read_model(ConfigReader& reader) {
  ModelConfig model;
  model.family = reader.family().model_type;
  model.head.task = reader.family().axes.task;
  if (model.head.task == Task::token_classification) model.head.labels = read_labels(reader);
  model.hidden = reader.integer("hidden");
  model.vocab = reader.integer("vocab");
  model.max_positions = reader.integer("max_positions");
  model.norm.kind = reader.family().axes.norm;
  model.norm.eps = reader.number("norm_eps");
  model.residual = reader.family().axes.residual;
  model.scales.embedding = reader.number("embedding_scale", 1);
  model.scales.residual = reader.number("residual_scale", 1);
  model.head.divisor = reader.number("logits_divisor", 1);
  model.mlp.gating = read_gating(reader);
  model.mlp.bias = reader.boolean("mlp_bias");
  model.mlp.ff = reader.optional_integer("dense_ff").value_or(0);
  model.head.tied = reader.boolean("tied_head");
  model.head.bias = reader.boolean("head_bias");
  model.attention = read_attention(reader, model.max_positions);
  model.moe = read_moe(reader);
  model.layers.resize(static_cast<size_t>(reader.integer("layers")));
  read_moe_layers(reader, model);
  read_rotated_layers(reader, model.layers);
  read_spans(reader, model.layers);
  apply_direction(reader, model.max_positions, model.layers);
  model.stored = read_storage(reader);
  model.names = first_names(reader, std::ssize(model.layers));
  // Each packed matrix comes with a tensor of its sizes, which the config implies already.
  if (model.stored.coding == WeightCoding::int4_groups)
    model.names.ignored.emplace_back("*.weight_shape");
  if (model.head.tied && model.names.has("lm_head"))
    model.names.ignored.push_back(model.names("lm_head"));
  return model;
}

Result<const Family*> choose_family(const JsonValue& root, const JsonSource& source,
                                    const Family* user_family) {
  const JsonValue* type = root.find("model_type");
  if (type == nullptr || type->string() == nullptr)
    return fail("hf.config.model_type", "there is no string \"model_type\", which names the family",
                "Give the config.json of a Hugging Face checkpoint.", {.file = source.file});
  if (user_family != nullptr) {
    if (describes(*user_family, *type->string())) return user_family;
    return fail("hf.family.mismatch",
                fmt::format("the family file describes \"{}\", the config is of \"{}\"",
                            user_family->model_type, printable(*type->string(), 60)),
                "Give the family file that belongs to this checkpoint, or none.",
                {.file = source.file});
  }
  Result<const Family*> family = find_family(*type->string());
  if (!family) family.error().front().place.file = source.file;
  return family;
}

// A model that contradicts itself may do so because of a key that the config leaves out.
Diagnostics check_with_defaults(const HfConfig& config) {
  Diagnostics findings = check_model(config.model);
  for (Diagnostic& finding : findings)
    finding.next_step.insert(
        0, absent_keys_of_finding({*config.family, config.concepts}, finding.code));
  return findings;
}

}  // namespace

Result<ExplainedConfig> explain_config(std::string_view text, const std::string& file,
                                       const Family* user_family) {
  JsonSource source{.file = file};
  MOEC_ASSIGN(JsonValue root, parse_json(text, source));
  if (root.object() == nullptr)
    return fail("hf.config.not_object", "the config is not a JSON object",
                "give the config.json of a checkpoint", {.file = file});
  ExplainedConfig explained;
  HfConfig& config = explained.config;
  MOEC_ASSIGN(config.family, choose_family(root, source, user_family));
  ConfigReader reader(text, source, root, *config.family);
  config.model = read_model(reader);
  reader.check_other_keys();
  explained.errors = reader.take_errors();
  config.warnings = reader.take_warnings();
  config.concepts = reader.concepts();
  config.other_keys = reader.other_keys();
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
