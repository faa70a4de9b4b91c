#include "frontends/sources/hf/attention_spans.h"

#include <fmt/format.h>

#include <utility>

#include "frontends/sources/hf/attention_layers.h"

namespace moec {
namespace {

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

std::optional<AttentionSpan> parse_span(const std::string& layer_type, const Family& family) {
  const MixerKind mixer = family.axes.mixer;
  if (has_other_mixer(layer_type, mixer)) return AttentionSpan::none;
  if (mixer == MixerKind::ssd && layer_type == "attention") return AttentionSpan::all;
  if (is_indexed(family, layer_type)) return AttentionSpan::all;
  if (layer_type == "full_attention" || layer_type == "hybrid") return AttentionSpan::all;
  if (layer_type == "sliding_attention" || layer_type == "hybrid_sliding")
    return AttentionSpan::window;
  if (layer_type == "chunked_attention") return AttentionSpan::chunk;
  return std::nullopt;
}

// Determines the layers with a sliding window by a window rule.
struct SlidingLayers {
  WindowRule rule;
  int64_t below, full_step;       // below: max_window_layers
  int64_t full_offset;            // of the layers that the step counts
  int64_t full_below, full_from;  // layers outside of this range see all keys
  // The first `dense` layers, which have their own step; later layers are counted from there on.
  int64_t dense, dense_full_step;
  bool window, slides;  // the config has a window; `use_window` is not false

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
    if (layer < dense) return window && (layer + 1) % dense_full_step != 0;
    // Counted from 1 + full_offset, every `full_step`-th layer sees all keys.
    return window && layer >= full_below && layer < full_from &&
           (layer - dense + 1 + full_offset) % full_step != 0;
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
std::vector<AttentionSpan> default_spans(ConfigReader& reader,
                                         const std::vector<LayerConfig>& layers,
                                         const std::vector<bool>& attends, bool window,
                                         bool chunk) {
  const std::optional<int64_t> dense_step = reader.optional_integer("dense_full_step");
  const SlidingLayers sliding{.rule = reader.family().axes.window,
                              .below = reader.integer("max_window_layers", 0),
                              .full_step = full_step(reader),
                              .full_offset = reader.integer("full_offset", 0),
                              .full_below = reader.integer("leading_full", 0),
                              .full_from = std::ssize(layers) - reader.integer("trailing_full", 0),
                              .dense = dense_step ? reader.integer("first_moe_layer", 0) : 0,
                              .dense_full_step = dense_step.value_or(1),
                              .window = window,
                              .slides = reader.boolean("use_window", true)};
  std::vector<AttentionSpan> spans(layers.size(), AttentionSpan::all);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!attends[i]) {
      spans[i] = AttentionSpan::none;
      continue;
    }
    if (sliding.has(static_cast<int64_t>(i)))
      spans[i] = AttentionSpan::window;
    else if (chunk && layers[i].rotated)
      spans[i] = AttentionSpan::chunk;
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

// Returns the list `layer_types` of the config, or that of the descriptor, which repeats; absent if
// there is none.
std::optional<std::vector<std::string>> listed_types(ConfigReader& reader, size_t layers) {
  std::optional<std::vector<std::string>> types = reader.optional_names("layer_types");
  if (!types || types->empty() || reader.at("layer_types") != nullptr) return types;
  const size_t period = types->size();
  types->resize(layers);
  for (size_t i = period; i < layers; ++i) (*types)[i] = (*types)[i - period];
  return types;
}

// Overrides the spans with those of the config's list `layer_types`. The list must agree with
// `attends`, the result of attention_layers().
void read_layer_types(ConfigReader& reader, const std::vector<bool>& attends,
                      std::vector<AttentionSpan>& spans) {
  const std::optional<std::vector<std::string>> types = listed_types(reader, spans.size());
  if (!types || !reader.has_one_a_layer("layer_types", types->size())) return;
  std::vector<bool> now;
  for (size_t i = 0; i < spans.size(); ++i) {
    const std::optional<AttentionSpan> span = parse_span((*types)[i], reader.family());
    if (!span)
      reader.error(
          "hf.config.unknown_layer_type",
          fmt::format("unknown layer type \"{}\"; known: full_attention, "
                      "sliding_attention, chunked_attention, hybrid, hybrid_sliding{}",
                      printable((*types)[i], 60), other_layer_type(reader.family().axes.mixer)),
          reader.at("layer_types"));
    // Reading continues with full attention, so that one run reports all unknown types.
    spans[i] = span.value_or(AttentionSpan::all);
    now.push_back(spans[i] != AttentionSpan::none);
  }
  check_listed_mixers(reader, attends, now);
}

// Some classes in transformers use full attention in the last layer, regardless of the config.
void open_last_layer(ConfigReader& reader, std::vector<AttentionSpan>& spans) {
  if (!reader.boolean("last_is_full") || spans.empty() || spans.back() == AttentionSpan::all)
    return;
  if (reader.at("layer_types") != nullptr)
    reader.warning(
        "hf.config.last_layer",
        fmt::format("the last layer has full attention in the family {}, regardless of \"{}\"",
                    reader.family().model_type, reader.key_of("layer_types")),
        reader.at("layer_types"));
  spans.back() = AttentionSpan::all;
}

// Returns the name that `layer_types` has for layers with this span.
std::string type_name(const Family& family, AttentionSpan span) {
  const auto rotation = family.concepts.find("rotation");
  const bool hybrid = rotation != family.concepts.end() && rotation->second.fallback &&
                      rotation->second.fallback->find("hybrid") != nullptr;
  switch (span) {
    case AttentionSpan::all:
      return hybrid ? "hybrid" : "full_attention";
    case AttentionSpan::window:
      return hybrid ? "hybrid_sliding" : "sliding_attention";
    case AttentionSpan::chunk:
      return "chunked_attention";
    case AttentionSpan::none:
      break;
  }
  return "none";
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

}  // namespace

bool is_indexed(const Family& family, const std::string& layer_type) {
  return family.concepts.count("chosen_keys") > 0 &&
         (layer_type == "indexed_attention" || layer_type == "deepseek_sparse_attention" ||
          layer_type == "minimax_m3_sparse");
}

std::vector<AttentionSpan> read_spans(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  std::optional<int64_t> given = reader.optional_integer("window");
  // A window that does not count the query itself takes precedence.
  if (const auto earlier = reader.optional_integer("earlier_window")) given = *earlier + 1;
  refuse_empty_window(reader, given, layers.size());
  const int64_t window = given.value_or(0);
  const int64_t chunk = reader.optional_integer("chunk").value_or(0);
  const bool window_in_use = reader.boolean("use_window", true) && window > 0;
  const std::vector<bool> attends = attention_layers(reader, layers.size());
  std::vector<AttentionSpan> spans =
      default_spans(reader, layers, attends, window_in_use, chunk > 0);
  read_layer_types(reader, attends, spans);
  open_last_layer(reader, spans);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (spans[i] == AttentionSpan::none) layers[i].mixer = reader.family().axes.mixer;
    if (spans[i] == AttentionSpan::window) layers[i].window = window;
    if (spans[i] == AttentionSpan::chunk) layers[i].chunk = chunk;
    const bool slides = spans[i] == AttentionSpan::window && !window_in_use;
    if (slides)
      reader.error("hf.config.window",
                   fmt::format("layer {} has a sliding window, but its width is not set", i),
                   reader.at("window"),
                   "set sliding_window (and use_sliding_window), or make the layer "
                   "full_attention");
    const bool chunked = spans[i] == AttentionSpan::chunk && chunk == 0;
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

std::vector<std::string> type_names(ConfigReader& reader, const std::vector<AttentionSpan>& spans) {
  const auto listed = listed_types(reader, spans.size()).value_or(std::vector<std::string>());
  std::vector<std::string> names;
  for (size_t i = 0; i < spans.size(); ++i) {
    // A family can have several names for one span, and rotary embeddings can differ by name.
    const bool kept = i < listed.size() && parse_span(listed[i], reader.family()) == spans[i];
    names.push_back(kept ? listed[i] : type_name(reader.family(), spans[i]));
  }
  return names;
}

}  // namespace moec
