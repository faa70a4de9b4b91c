#include "frontends/sources/hf/config_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontends/sources/hf/attention_spans.h"

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

// Returns the base of each layer's rotation, 0 for layers that do not rotate; empty if the config
// has no valid list.
std::vector<double> layer_thetas(ConfigReader& reader) {
  const auto thetas = reader.optional_numbers("layer_thetas");
  if (!thetas || !reader.has_one_a_layer("layer_thetas", thetas->size())) return {};
  for (const double theta : *thetas)
    if (theta < 0)
      reader.error("hf.config.unsupported_value",
                   fmt::format("\"{}\" has the base {}, must be at least 0",
                               reader.key_of("layer_thetas"), theta),
                   reader.at("layer_thetas"));
  return *thetas;
}

// Sets `rotated` of each layer from the config's list of ones and zeros, or of bases; otherwise by
// the descriptor's rule.
void read_rotated_layers(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  const int64_t step = reader.integer("unrotated_step", 0);
  const std::vector<int64_t> listed = reader.integers("rotated_layers");
  if (!listed.empty() && !reader.has_one_a_layer("rotated_layers", listed.size())) return;
  const std::vector<double> thetas = layer_thetas(reader);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!thetas.empty()) {
      layers[i].rotated = thetas[i] != 0;
      continue;
    }
    // The rule counts layers from 1: every step-th layer has no rotary embedding.
    const bool by_rule = step == 0 || (static_cast<int64_t>(i) + 1) % step != 0;
    layers[i].rotated = listed.empty() ? by_rule : listed[i] != 0;
  }
}

// Restricts rotary embeddings to windowed layers if the family requires it. Dense layers that all
// see all keys also rotate.
void rotate_windowed_layers(ConfigReader& reader, std::vector<LayerConfig>& layers) {
  if (reader.family().axes.rotated != RotatedLayers::windowed) return;
  const bool dense = reader.optional_integer("dense_full_step") == 1;
  for (LayerConfig& layer : layers) layer.rotated = layer.window > 0 || (dense && !layer.moe);
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
  const std::vector<AttentionSpan> spans = read_spans(reader, model.layers);
  // Must follow read_spans(), which sets the windows.
  rotate_windowed_layers(reader, model.layers);
  if (kinds) apply_layer_kinds(reader, *kinds, model);
  apply_direction(reader, model.max_positions, model.layers);
  return type_names(reader, spans);
}

}  // namespace moec
