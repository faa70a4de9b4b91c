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

// Entries of a list, one per layer; absent if the config has no list.
using LayerFlags = std::optional<std::vector<bool>>;

// Reads a list of ones and zeros, or of booleans.
LayerFlags listed_flags(ConfigReader& reader, std::string_view concept_name) {
  LayerFlags listed = reader.optional_flags(concept_name);
  // A list of another length is reported and then ignored, so that reading continues.
  if (!listed || !reader.has_one_a_layer(concept_name, listed->size())) return std::nullopt;
  return listed;
}

// Returns the flags from the list of types, otherwise from the list of ones and zeros. If both
// exist, they must agree.
LayerFlags agreed(ConfigReader& reader, std::string_view types, const LayerFlags& by_types,
                  std::string_view flags) {
  const LayerFlags by_flags = listed_flags(reader, flags);
  if (by_types && by_flags && *by_types != *by_flags)
    reader.error("hf.config.conflict",
                 fmt::format("\"{}\" and \"{}\" describe the same layers differently",
                             reader.key_of(types), reader.key_of(flags)),
                 reader.at(flags), "remove the wrong one");
  return by_types ? by_types : by_flags;
}

// Returns the flags of MoE layers from the config's list of "dense" and "sparse".
LayerFlags listed_mlp_types(ConfigReader& reader) {
  const std::optional<std::vector<std::string>> types = reader.optional_names("mlp_types");
  if (!types || !reader.has_one_a_layer("mlp_types", types->size())) return std::nullopt;
  std::vector<bool> sparse;
  for (const std::string& type : *types) {
    if (type != "sparse" && type != "dense")
      reader.error("hf.config.unknown_layer_type",
                   fmt::format("unknown feed-forward type \"{}\"; known: dense, sparse",
                               printable(type, 60)),
                   reader.at("mlp_types"));
    sparse.push_back(type == "sparse");
  }
  return sparse;
}

// Returns the flags of MoE layers from the config's list of layer numbers, otherwise by the
// descriptor's rule.
std::vector<bool> moe_by_number(ConfigReader& reader, size_t layers) {
  // All keys are read, even if the list takes precedence. Otherwise they would be reported as
  // unknown.
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

// Sets `moe` of each layer.
void read_moe_layers(ConfigReader& reader, ModelConfig& model) {
  const std::vector<bool> by_number = moe_by_number(reader, model.layers.size());
  const std::vector<bool> moe =
      agreed(reader, "mlp_types", listed_mlp_types(reader), "moe_flags").value_or(by_number);
  for (size_t i = 0; i < model.layers.size(); ++i) {
    model.layers[i].moe = model.moe.experts > 0 && moe[i];
    // The state comes from the router of the layer before, so that layer must be MoE, too.
    model.layers[i].takes_router_state =
        model.moe.router_hidden > 0 && model.layers[i].moe && i > 0 && model.layers[i - 1].moe;
  }
}

// Sets `rotated` of each layer from the config's list of ones and zeros, otherwise by the
// descriptor's rule.
void read_rotated_layers(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  const int64_t step = reader.integer("unrotated_step", 0);
  const std::vector<int64_t> listed = reader.integers("rotated_layers");
  if (!listed.empty() && !reader.has_one_a_layer("rotated_layers", listed.size())) return;
  for (size_t i = 0; i < layers.size(); ++i) {
    // The rule counts layers from 1: every step-th layer has no rotary embedding.
    const bool by_rule = step == 0 || (static_cast<int64_t>(i) + 1) % step != 0;
    layers[i].rotated = listed.empty() ? by_rule : listed[i] != 0;
  }
}

// Restricts rotary embeddings to windowed layers if the family requires it.
void rotate_windowed_layers(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  if (reader.family().axes.rotated == RotatedLayers::windowed)
    for (LayerConfig& layer : layers) layer.rotated = layer.window > 0;
}

// Keys to which a layer attends: all, a sliding window, or the same chunk; none if the layer has
// the family's other mixer.
enum class Span : uint8_t { all, window, chunk, none };

// Returns true if an indexer selects the keys in layers of this type. In every context that moec
// supports, these layers attend to all keys (limit_to_chosen_keys() in config.cc).
bool is_indexed(const Family& family, const std::string& layer_type) {
  return family.concepts.count("chosen_keys") > 0 &&
         (layer_type == "indexed_attention" || layer_type == "deepseek_sparse_attention" ||
          layer_type == "minimax_m3_sparse");
}

// Returns true if a layer of this type has the family's other mixer. Accepts names of current and
// older configs.
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

// Determines the layers with a sliding window by a window rule.
struct SlidingLayers {
  WindowRule rule;
  int64_t below, full_step;  // below: max_window_layers
  bool window, slides;       // the config has a window; `use_window` is not false

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
    // Counted from 1, every `full_step`-th layer sees all keys.
    return window && (layer + 1) % full_step != 0;
  }
};

// Returns the step of layers that see all keys. Some configs have a pattern such as "LLLG" instead
// of a number, in addition to a list of layer types, which takes precedence.
int64_t full_step(ConfigReader& reader) {
  const JsonValue* given = reader.at("full_step");
  if (given == nullptr || given->string() == nullptr) return reader.integer("full_step", 1);
  const std::string key = reader.key_of("full_step");
  reader.key(key);
  if (reader.at("layer_types") == nullptr)
    reader.error("hf.config.missing_key",
                 fmt::format("\"{}\" is {} instead of a number, and \"{}\" is missing", key,
                             to_string(*given, 60), reader.key_of("layer_types")),
                 given, "add the list of layer types, or replace the value by a number");
  return 1;
}

// Returns the spans by the descriptor's rule. Layers without rotary embeddings attend to all keys
// even if the model has chunks. The rule even_layers_below_max does not check for a window here,
// because read_spans() reports a missing window.
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

// Returns the names of the mixer's layer types, for the list of known names in a message.
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

// Overrides the spans with those of the config's list `layer_types`. The list must agree with
// `attends`, the result of attention_layers().
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
    // Reading continues with full attention, so that one run reports all unknown types.
    spans[i] = span.value_or(Span::all);
    now.push_back(spans[i] != Span::none);
  }
  check_listed_mixers(reader, attends, now);
}

// Some classes in transformers use full attention in the last layer, regardless of the config.
void open_last_layer(ConfigReader& reader, std::vector<Span>& spans) {
  if (!reader.boolean("last_is_full") || spans.empty() || spans.back() == Span::all) return;
  if (reader.at("layer_types") != nullptr)
    reader.warning(
        "hf.config.last_layer",
        fmt::format("the last layer has full attention in the family {}, regardless of \"{}\"",
                    reader.family().model_type, reader.key_of("layer_types")),
        reader.at("layer_types"));
  spans.back() = Span::all;
}

// Returns the name that `layer_types` has for layers with this span.
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

// Returns the type name of each layer: the config's name, unless the layer's span has changed.
std::vector<std::string> type_names(ConfigReader& reader, const std::vector<Span>& spans) {
  const auto listed = reader.optional_names("layer_types").value_or(std::vector<std::string>());
  std::vector<std::string> names;
  for (size_t i = 0; i < spans.size(); ++i) {
    // A family can have several names for one span, and rotary embeddings can differ by name.
    const bool kept = i < listed.size() && parse_span(listed[i], reader.family()) == spans[i];
    names.push_back(kept ? listed[i] : type_name(reader.family(), spans[i]));
  }
  return names;
}

// Sets the range of bidirectional attention, which is the same forward as backward. `window` counts
// the query itself, so it increases by one.
void apply_direction(ConfigReader& reader, int64_t max_positions,
                     std::vector<LayerConfig>& layers) {
  if (reader.family().axes.direction == Direction::causal) return;
  for (LayerConfig& layer : layers) {
    layer.ahead = layer.window > 0 ? layer.window : max_positions;
    if (layer.window > 0) ++layer.window;
  }
}

// Returns the layer kinds of a pattern with one letter per layer.
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

// Returns the current name of a mixer for names of older configs.
std::string kind_of_today(const std::string& kind) {
  if (kind == "mamba") return "linear_attention";
  return kind == "attention" ? "full_attention" : kind;
}

// Returns the kind of each layer for families with layers that are either a mixer or a feed-forward
// part; absent for other families. Reads the config's list and pattern, which must agree and
// determine the number of layers.
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
                   fmt::format("\"{}\" and \"{}\" specify different layer kinds",
                               reader.key_of("layer_kinds"), reader.key_of("layer_pattern")),
                   reader.at("layer_pattern"), "remove the wrong one");
    kinds = spelt;
  }
  // The number of layers is optional here, because the list already determines it.
  if (reader.at("layers") != nullptr && std::cmp_not_equal(reader.integer("layers"), kinds.size()))
    reader.error("hf.config.layer_types",
                 fmt::format("\"{}\" is {}, but there are {} layer kinds", reader.key_of("layers"),
                             reader.integer("layers"), kinds.size()),
                 reader.at("layers"));
  return kinds;
}

// Sets `parts`, `mixer` and `moe` of each layer according to the layer's kind.
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

// Refuses a window of 0. With it, a token would attend to no key, or only to itself in a
// bidirectional model.
void refuse_empty_window(ConfigReader& reader, std::optional<int64_t> window, size_t layers) {
  const FamilyAxes& axes = reader.family().axes;
  const bool slides =
      axes.window == WindowRule::all_layers || axes.rotated == RotatedLayers::windowed ||
      (axes.window == WindowRule::layers_from_max && !reader.optional_names("layer_types") &&
       std::cmp_less(reader.integer("max_window_layers", 0), layers));
  if (window == 0 && reader.boolean("use_window", true) && slides)
    reader.error("hf.config.window",
                 fmt::format("\"{}\" is 0, which hides every other token", reader.key_of("window")),
                 reader.at("window"), "set the width of the window, or null for none");
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
      reader.error("hf.config.window",
                   fmt::format("layer {} has a sliding window, but its width is not set", i),
                   reader.at("window"),
                   "set sliding_window (and use_sliding_window), or make the layer "
                   "full_attention");
    const bool chunked = spans[i] == Span::chunk && chunk == 0;
    if (chunked)
      reader.error("hf.config.window",
                   fmt::format("layer {} has chunked attention, but the chunk size is missing", i),
                   reader.at("chunk"),
                   "set attention_chunk_size, or make the layer full_attention");
    // Errors of further layers would have the same cause.
    if (slides || chunked) break;
  }
  return spans;
}

}  // namespace

bool has_indexed_layers(ConfigReader& reader) {
  // Families without this concept have the indexer in every layer.
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
  // The default spans need `rotated`: layers without rotary embeddings have no chunks.
  read_rotated_layers(reader, model.layers);
  const std::vector<Span> spans = read_spans(reader, model.layers);
  // Must follow read_spans(), which sets the windows.
  rotate_windowed_layers(reader, model.layers);
  if (kinds) apply_layer_kinds(reader, *kinds, model);
  apply_direction(reader, model.max_positions, model.layers);
  return type_names(reader, spans);
}

}  // namespace moec
