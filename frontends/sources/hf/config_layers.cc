#include "frontends/sources/hf/config_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontends/sources/hf/attention_layers.h"

namespace moec {
namespace {

bool lists(const std::vector<int64_t>& values, int64_t value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// What a list says of each layer; nothing without one.
using LayerFlags = std::optional<std::vector<bool>>;

// A list of ones and zeros, or of true and false.
LayerFlags listed_flags(ConfigReader& reader, std::string_view concept_name) {
  LayerFlags listed = reader.optional_flags(concept_name);
  if (!listed || !reader.has_one_a_layer(concept_name, listed->size())) return std::nullopt;
  return listed;
}

// What the list of types says, or else that of ones and zeros, which must agree with it.
LayerFlags agreed(ConfigReader& reader, std::string_view types, const LayerFlags& by_types,
                  std::string_view flags) {
  const LayerFlags by_flags = listed_flags(reader, flags);
  if (by_types && by_flags && *by_types != *by_flags)
    reader.error("hf.config.conflict",
                 fmt::format("\"{}\" and \"{}\" differ: both name the same layers",
                             reader.key_of(types), reader.key_of(flags)),
                 reader.at(flags), "Remove the wrong one.");
  return by_types ? by_types : by_flags;
}

// Whether each layer has experts, by the config's own list of "dense" and "sparse".
LayerFlags listed_mlp_types(ConfigReader& reader) {
  const std::optional<std::vector<std::string>> types = reader.optional_names("mlp_types");
  if (!types || !reader.has_one_a_layer("mlp_types", types->size())) return std::nullopt;
  std::vector<bool> sparse;
  for (const std::string& type : *types) {
    if (type != "sparse" && type != "dense")
      reader.error("hf.config.unknown_layer_type",
                   fmt::format("unknown type of feed-forward \"{}\"; known: dense, sparse",
                               printable(type, 60)),
                   reader.at("mlp_types"));
    sparse.push_back(type == "sparse");
  }
  return sparse;
}

// Whether each layer has experts, by the list of their numbers, else by the descriptor's rule.
std::vector<bool> moe_by_number(ConfigReader& reader, size_t layers) {
  const int64_t step = reader.integer("moe_step", 1), first = reader.integer("first_moe_layer", 0);
  const int64_t last = reader.optional_integer("last_moe_layer").value_or(-1);
  const std::vector<int64_t> dense = reader.integers("dense_layers");
  const std::optional<std::vector<int64_t>> listed = reader.optional_integers("moe_layers");
  std::vector<bool> moe;
  for (int64_t layer = 0; std::cmp_less(layer, layers); ++layer) {
    const bool by_rule = layer >= first && (last < 0 || layer <= last) &&
                         (layer + reader.family().moe_offset) % step == 0 && !lists(dense, layer);
    moe.push_back(listed ? lists(*listed, layer) : by_rule);
  }
  return moe;
}

// Sets which layers have experts.
void read_moe_layers(ConfigReader& reader, ModelConfig& model) {
  const std::vector<bool> by_number = moe_by_number(reader, model.layers.size());
  const std::vector<bool> moe =
      agreed(reader, "mlp_types", listed_mlp_types(reader), "moe_flags").value_or(by_number);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].moe = model.moe.experts > 0 && moe[i];
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

// Where the layers with a window alone rotate.
void rotate_windowed_layers(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  if (reader.family().axes.rotated == RotatedLayers::windowed)
    for (LayerConfig& layer : layers) layer.rotated = layer.window > 0;
}

// Which keys a layer attends to: all of them, a sliding window, or those of the same chunk; none
// where it has the family's other mixer.
enum class Span : uint8_t { all, window, chunk, none };

// Layers whose indexer chooses the keys see all of them in every context that an export takes.
bool is_indexed(const Family& family, const std::string& layer_type) {
  return family.concepts.count("chosen_keys") > 0 &&
         (layer_type == "indexed_attention" || layer_type == "deepseek_sparse_attention" ||
          layer_type == "minimax_m3_sparse");
}

// Whether a layer of this type has the family's other mixer: names of today, and of older configs.
bool has_other_mixer(const std::string& layer_type, MixerKind mixer) {
  switch (mixer) {
    case MixerKind::attention:
      return false;
    case MixerKind::short_conv:
      return layer_type == "conv";
    case MixerKind::ssd:
      return layer_type == "linear_attention" || layer_type == "mamba";
    case MixerKind::gated_delta:
    case MixerKind::kimi_delta:
      break;
  }
  return layer_type == "linear_attention";
}

std::optional<Span> parse_span(const std::string& layer_type, const Family& family) {
  const MixerKind mixer = family.axes.mixer;
  if (has_other_mixer(layer_type, mixer)) return Span::none;
  if (mixer == MixerKind::ssd && layer_type == "attention") return Span::all;
  if (is_indexed(family, layer_type)) return Span::all;
  if (layer_type == "full_attention" || layer_type == "hybrid") return Span::all;
  if (layer_type == "sliding_attention" || layer_type == "hybrid_sliding") return Span::window;
  if (layer_type == "chunked_attention") return Span::chunk;
  return std::nullopt;
}

// Where the layers of a rule slide.
struct SlidingLayers {
  WindowRule rule;
  int64_t below, full_step;  // max_window_layers
  bool window, slides;       // a window is given; its use is not turned off

  bool has(int64_t layer) const {
    switch (rule) {
      case WindowRule::none:
        return false;
      case WindowRule::all_layers:
        return window;
      case WindowRule::even_layers_below_max:
        return slides && layer % 2 == 0 && layer < below;
      case WindowRule::layers_from_max:
        return window && layer >= below;
      case WindowRule::between_full:
        break;
    }
    return window && (layer + 1) % full_step != 0;
  }
};

// The step of layers that see all keys. Some configs spell it, "LLLG", beside a list of the types
// of layers, which counts then.
int64_t full_step(ConfigReader& reader) {
  const JsonValue* given = reader.at("full_step");
  if (given == nullptr || given->string() == nullptr) return reader.integer("full_step", 1);
  const std::string key = reader.key_of("full_step");
  reader.key(key);
  if (reader.at("layer_types") == nullptr)
    reader.error("hf.config.missing_key",
                 fmt::format("\"{}\" is {} and no number, and \"{}\" is not given", key,
                             to_string(*given, 60), reader.key_of("layer_types")),
                 given, "Add the list of the types of layers, or give the number.");
  return 1;
}

// Spans by the descriptor's rule. Layers without rotation attend to all keys even where the model
// has chunks. Where even layers slide they do so with or without a window: a missing one is an
// error.
std::vector<Span> default_spans(ConfigReader& reader, const std::vector<LayerConfig>& layers,
                                const std::vector<bool>& attends, bool window, bool chunk) {
  const SlidingLayers sliding{reader.family().axes.window, reader.integer("max_window_layers", 0),
                              full_step(reader), window, reader.boolean("use_window", true)};
  std::vector<Span> spans(layers.size(), Span::all);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!attends[i]) {
      spans[i] = Span::none;
      continue;
    }
    if (sliding.has(static_cast<int64_t>(i)))
      spans[i] = Span::window;
    else if (chunk && layers[i].rotated)
      spans[i] = Span::chunk;
  }
  return spans;
}

// What else is known there, behind a comma.
std::string_view other_layer_type(MixerKind mixer) {
  switch (mixer) {
    case MixerKind::attention:
      return "";
    case MixerKind::short_conv:
      return ", conv";
    case MixerKind::ssd:
      return ", linear_attention, mamba, attention";
    case MixerKind::gated_delta:
    case MixerKind::kimi_delta:
      break;
  }
  return ", linear_attention";
}

// Spans by the config's own list `layer_types`, which overrides the descriptor's rule. `attends` is
// what that or the lists of numbers say.
void read_layer_types(ConfigReader& reader, const std::vector<bool>& attends,
                      std::vector<Span>& spans) {
  std::optional<std::vector<std::string>> types = reader.optional_names("layer_types");
  if (!types || !reader.has_one_a_layer("layer_types", types->size())) return;
  std::vector<bool> now;
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::optional<Span> span = parse_span((*types)[i], reader.family());
    if (!span)
      reader.error(
          "hf.config.unknown_layer_type",
          fmt::format("unknown layer type \"{}\"; known: full_attention, "
                      "sliding_attention, chunked_attention, hybrid, hybrid_sliding{}",
                      printable((*types)[i], 60), other_layer_type(reader.family().axes.mixer)),
          reader.at("layer_types"));
    spans[i] = span.value_or(Span::all);
    now.push_back(spans[i] != Span::none);
  }
  check_listed_mixers(reader, attends, now);
}

// Some classes give the last layer full attention, whatever their config says.
void open_last_layer(ConfigReader& reader, std::vector<Span>& spans) {
  if (!reader.boolean("last_is_full") || spans.empty() || spans.back() == Span::all) return;
  if (reader.at("layer_types") != nullptr)
    reader.warning(
        "hf.config.last_layer",
        fmt::format("the last layer has full attention in the family {}, whatever \"{}\" "
                    "says",
                    reader.family().model_type, reader.key_of("layer_types")),
        reader.at("layer_types"));
  spans.back() = Span::all;
}

// As `layer_types` calls layers with these keys.
std::string type_name(const Family& family, Span span) {
  const auto rotation = family.concepts.find("rotation");
  const bool hybrid = rotation != family.concepts.end() && rotation->second.fallback &&
                      rotation->second.fallback->find("hybrid") != nullptr;
  switch (span) {
    case Span::all:
      return hybrid ? "hybrid" : "full_attention";
    case Span::window:
      return hybrid ? "hybrid_sliding" : "sliding_attention";
    case Span::chunk:
      return "chunked_attention";
    case Span::none:
      break;
  }
  return "none";
}

// Listed names stay as they are, unless the layer became another.
std::vector<std::string> type_names(ConfigReader& reader, const std::vector<Span>& spans) {
  const auto listed = reader.optional_names("layer_types").value_or(std::vector<std::string>());
  std::vector<std::string> names;
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool kept = i < listed.size() && parse_span(listed[i], reader.family()) == spans[i];
    names.push_back(kept ? listed[i] : type_name(reader.family(), spans[i]));
  }
  return names;
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

// The kinds of layers that a pattern spells, a letter a layer.
std::vector<std::string> kinds_of_pattern(ConfigReader& reader, const std::string& pattern) {
  std::vector<std::string> kinds;
  for (const char letter : pattern) {
    const bool known = std::string_view("M*E-").find(letter) != std::string_view::npos;
    if (!known)
      reader.error("hf.config.unknown_layer_type",
                   fmt::format("\"{}\" has the letter '{}'; known: M (mamba), * (attention), E "
                               "(experts), - (dense)",
                               reader.key_of("layer_pattern"), printable({&letter, 1}, 4)),
                   reader.at("layer_pattern"));
    kinds.emplace_back(letter == 'M'   ? "linear_attention"
                       : letter == '*' ? "full_attention"
                       : letter == 'E' ? "moe"
                                       : "mlp");
  }
  return kinds;
}

// Older configs have other names for mixers.
std::string kind_of_today(const std::string& kind) {
  if (kind == "mamba") return "linear_attention";
  return kind == "attention" ? "full_attention" : kind;
}

// The kind of each layer in a family whose layers are a mixer or a feed-forward part alone: by the
// config's list or its pattern, which must agree; nothing in other families. They say how many
// layers there are.
std::optional<std::vector<std::string>> layer_kinds(ConfigReader& reader) {
  if (reader.family().concepts.count("layer_kinds") == 0) return std::nullopt;
  std::vector<std::string> kinds =
      reader.optional_names("layer_kinds").value_or(std::vector<std::string>());
  for (std::string& kind : kinds) kind = kind_of_today(kind);
  const std::string pattern = reader.name("layer_pattern");
  if (const JsonValue* given = reader.at("layer_pattern"); given != nullptr && !given->is_null()) {
    const std::vector<std::string> spelt = kinds_of_pattern(reader, pattern);
    const bool listed = reader.at("layer_kinds") != nullptr;
    if (listed && spelt != kinds)
      reader.error("hf.config.conflict",
                   fmt::format("\"{}\" and \"{}\" give layers of different kinds",
                               reader.key_of("layer_kinds"), reader.key_of("layer_pattern")),
                   reader.at("layer_pattern"), "Remove the wrong one.");
    kinds = spelt;
  }
  if (reader.at("layers") != nullptr && std::cmp_not_equal(reader.integer("layers"), kinds.size()))
    reader.error("hf.config.layer_types",
                 fmt::format("\"{}\" is {}, and the kinds of layers are {}",
                             reader.key_of("layers"), reader.integer("layers"), kinds.size()),
                 reader.at("layers"));
  return kinds;
}

// Gives each layer the one part that its kind says.
void apply_layer_kinds(ConfigReader& reader, const std::vector<std::string>& kinds,
                       ModelConfig& model) {
  for (size_t i = 0; i < kinds.size(); ++i) {
    LayerConfig& layer = model.layers[i];
    const bool mixes = kinds[i] == "linear_attention" || kinds[i] == "full_attention";
    layer.parts = mixes ? LayerParts::mixer : LayerParts::feed_forward;
    layer.mixer =
        kinds[i] == "linear_attention" ? reader.family().axes.mixer : MixerKind::attention;
    layer.moe = kinds[i] == "moe";
    if (!mixes && kinds[i] != "moe" && kinds[i] != "mlp")
      reader.error("hf.config.unknown_layer_type",
                   fmt::format("unknown kind of layer \"{}\"; known: linear_attention (also "
                               "mamba), full_attention (also attention), moe, mlp",
                               printable(kinds[i], 60)),
                   reader.at("layer_kinds"));
  }
}

// In a window of 0 a token sees no key, or only itself where a model looks both ways.
void refuse_empty_window(ConfigReader& reader, std::optional<int64_t> window, size_t layers) {
  const FamilyAxes& axes = reader.family().axes;
  const bool slides =
      axes.window == WindowRule::all_layers || axes.rotated == RotatedLayers::windowed ||
      (axes.window == WindowRule::layers_from_max && !reader.optional_names("layer_types") &&
       std::cmp_less(reader.integer("max_window_layers", 0), layers));
  if (window == 0 && reader.boolean("use_window", true) && slides)
    reader.error("hf.config.window",
                 fmt::format("\"{}\" is 0, which hides every other token", reader.key_of("window")),
                 reader.at("window"), "Set the width of the window, or null for none.");
}

std::vector<Span> read_spans(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  const std::optional<int64_t> given = reader.optional_integer("window");
  refuse_empty_window(reader, given, layers.size());
  const int64_t window = given.value_or(0);
  const int64_t chunk = reader.optional_integer("chunk").value_or(0);
  const bool window_in_use = reader.boolean("use_window", true) && window > 0;
  const std::vector<bool> attends = attention_layers(reader, layers.size());
  std::vector<Span> spans = default_spans(reader, layers, attends, window_in_use, chunk > 0);
  read_layer_types(reader, attends, spans);
  open_last_layer(reader, spans);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (spans[i] == Span::none) layers[i].mixer = reader.family().axes.mixer;
    if (spans[i] == Span::window) layers[i].window = window;
    if (spans[i] == Span::chunk) layers[i].chunk = chunk;
    const bool slides = spans[i] == Span::window && !window_in_use;
    if (slides)
      reader.error("hf.config.window", fmt::format("layer {} slides, but no window is in use", i),
                   reader.at("window"),
                   "Set sliding_window (and use_sliding_window), or make the layer "
                   "full_attention.");
    const bool chunked = spans[i] == Span::chunk && chunk == 0;
    if (chunked)
      reader.error(
          "hf.config.window", fmt::format("layer {} sees chunks, but their size is not given", i),
          reader.at("chunk"), "Set attention_chunk_size, or make the layer full_attention.");
    if (slides || chunked) break;
  }
  return spans;
}

}  // namespace

bool has_indexed_layers(ConfigReader& reader) {
  if (reader.family().concepts.count("indexed_layers") == 0) return true;
  LayerFlags by_types;
  if (const auto types = reader.optional_names("layer_types")) {
    by_types.emplace();
    for (const std::string& type : *types) by_types->push_back(is_indexed(reader.family(), type));
  }
  const LayerFlags indexed = agreed(reader, "layer_types", by_types, "indexed_layers");
  return indexed && std::find(indexed->begin(), indexed->end(), true) != indexed->end();
}

std::vector<std::string> read_layers(ConfigReader& reader, ModelConfig& model) {
  const std::optional<std::vector<std::string>> kinds = layer_kinds(reader);
  model.layers.resize(kinds ? kinds->size() : static_cast<size_t>(reader.integer("layers")));
  read_moe_layers(reader, model);
  read_rotated_layers(reader, model.layers);
  const std::vector<Span> spans = read_spans(reader, model.layers);
  rotate_windowed_layers(reader, model.layers);
  if (kinds) apply_layer_kinds(reader, *kinds, model);
  apply_direction(reader, model.max_positions, model.layers);
  return type_names(reader, spans);
}

}  // namespace moec
