#include "frontends/sources/hf/config_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "frontends/sources/hf/config_rope.h"
#include "frontends/sources/hf/rope_object.h"
#include "ir/base/parse_number.h"
#include "models/tensors/mla_form.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

// Requires one key head per query head. The reference expands the latent into keys of all heads and
// then repeats the keys for grouped queries, which is only consistent without groups.
void check_latent_heads(ConfigReader& reader, const AttentionConfig& attention) {
  if (attention.kv_heads == attention.heads) return;
  const JsonValue* given = reader.at("kv_heads");
  reader.error("hf.config.unsupported_value",
               fmt::format("{}\"{}\" is {}, but with latent attention it must equal \"{}\", {}",
                           given == nullptr ? "by default " : "", reader.key_of("kv_heads"),
                           attention.kv_heads, reader.key_of("heads"), attention.heads),
               given, "set the key to the number of heads");
}

void read_latent(ConfigReader& reader, AttentionConfig& attention) {
  check_latent_heads(reader, attention);
  LatentConfig latent;
  latent.q_rank = reader.optional_integer("q_rank").value_or(0);
  latent.kv_rank = reader.integer("kv_rank");
  // Without rotary embeddings, the shared part of a head has the config's head size.
  latent.shared_dims =
      attention.rope.style == RopeStyle::none ? attention.head_dim : attention.rope.dims;
  latent.key_dims = reader.integer("key_dims");
  latent.value_dims = reader.integer("value_dims");
  latent.norm_eps = reader.number("latent_norm_eps", 0);
  const auto score_dims = static_cast<double>(latent.key_dims + latent.shared_dims);
  // max() keeps the quotient finite for an invalid config, which check_model() reports.
  attention.scale = rope_score_scale(attention.rope) / std::sqrt(std::max(1.0, score_dims));
  attention.latent = latent;
  choose_mla(attention, MlaForm::latent);
}

// The temperature that the object of the rotation states.
QueryTemperature rotation_temperature(ConfigReader& reader) {
  const JsonValue* rotation = reader.key("rope_parameters");
  if (rotation == nullptr) rotation = reader.key("rope_scaling");
  if (rotation == nullptr) rotation = reader.fallback("rotation");
  const auto number = [&](std::string_view name) {
    const JsonValue* value = rotation == nullptr ? nullptr : rotation->find(name);
    const std::optional<double> found = value == nullptr ? std::nullopt : value->number();
    if (!found)
      reader.error("hf.config.missing_key",
                   fmt::format("the rotation must have the number \"{}\"", name), rotation);
    return found.value_or(1);
  };
  return {number(kTemperatureScale), number("original_max_position_embeddings"), true};
}

std::optional<QueryTemperature> read_temperature(ConfigReader& reader) {
  if (reader.family().axes.tempered == TemperedLayers::all) return rotation_temperature(reader);
  const QueryTemperature temperature{reader.number("temperature_scale", 0),
                                     reader.number("temperature_step", 1)};
  // Configs of the Llama 4 release (2025) have the integer 4; later configs have true.
  const JsonValue* said = reader.at("use_temperature");
  if (said != nullptr && said->integer() != nullptr) {
    // boolean() would report the integer, so the key is marked as read here.
    reader.key(reader.key_of("use_temperature"));
    return *said->integer() != 0 ? std::optional(temperature) : std::nullopt;
  }
  return reader.boolean("use_temperature") ? std::optional(temperature) : std::nullopt;
}

// True if the gate has one factor per head. Configs may name the granularity instead of a boolean.
bool gates_heads(ConfigReader& reader) {
  const JsonValue* given = reader.at("gate_per_head");
  if (given == nullptr || given->string() == nullptr) return reader.boolean("gate_per_head");
  reader.key(reader.key_of("gate_per_head"));
  if (*given->string() != "per-head" && *given->string() != "per-element")
    reader.error("hf.config.unsupported_value",
                 fmt::format("\"{}\" is \"{}\", but must be per-head or per-element",
                             reader.key_of("gate_per_head"), printable(*given->string(), 60)),
                 given);
  return *given->string() == "per-head";
}

void read_gate(ConfigReader& reader, AttentionConfig& attention) {
  switch (reader.family().axes.attention_gate) {
    case AttentionGate::none:
      return;
    case AttentionGate::sigmoid_in_q:
      attention.projections = Projections::gate_in_q;
      return;
    case AttentionGate::sigmoid:
      attention.scaling.gate = {GateFn::sigmoid, gates_heads(reader)};
      return;
    case AttentionGate::softplus:
      attention.scaling.gate = {GateFn::softplus, gates_heads(reader)};
      return;
  }
}

// Properties of attention that can differ by layer.
struct Geometry {
  std::string layer_type;
  int64_t heads = 0, kv_heads = 0, head_dim = 0, value_dim = 0;
  bool keys_are_values = false;
  bool sinks = false;
  double theta = 0;  // as in RopeUse
  bool operator==(const Geometry&) const = default;
};

bool sees_all(const LayerConfig& layer) { return layer.window == 0 && layer.chunk == 0; }

// Reads sizes per layer. Layers that see all keys can have other sizes, or the config can specify
// sizes of single layers (`attention_by_layer`).
class GeometryReader {
 public:
  explicit GeometryReader(ConfigReader& reader)
      : reader_(reader),
        usual_(usual_geometry(reader)),
        full_(usual_),
        thetas_(reader.optional_numbers("layer_thetas").value_or(std::vector<double>())) {
    const std::optional<int64_t> heads = reader.optional_integer("full_kv_heads");
    if (const auto dims = reader.optional_integer("full_head_dim"))
      full_.head_dim = full_.value_dim = *dims;
    if (reader.boolean("window_sinks")) full_.sinks = false;
    full_.keys_are_values = reader.boolean("full_keys_are_values");
    if (heads && full_.keys_are_values) full_.kv_heads = *heads;
    heads_ = reader.integers("layer_heads");
    if (!heads_.empty() && !reader.has_one_a_layer("layer_heads", heads_.size())) heads_.clear();
    // `attention_by_layer` takes precedence over the sizes of layers with full attention.
    by_layer_ = reader.at("attention_by_layer") != nullptr;
    for (const JsonMember& member : reader.members("attention_by_layer")) check_member(member);
  }

  Geometry of(size_t index, const LayerConfig& layer, std::string type) {
    Geometry own = sees_all(layer) ? full_ : usual_;
    if (by_layer_) {
      own.kv_heads = usual_.kv_heads;
      own.head_dim = own.value_dim = usual_.head_dim;
      for (const JsonMember& member : reader_.members("attention_by_layer"))
        if (member.key == std::to_string(index)) take(member.value, own);
    }
    if (!sees_all(layer)) own.kv_heads *= reader_.integer("window_kv_factor", 1);
    own.layer_type = std::move(type);
    if (index < thetas_.size()) own.theta = thetas_[index];
    if (index < heads_.size()) own.heads = heads_[index];
    return own;
  }

 private:
  static Geometry usual_geometry(ConfigReader& reader) {
    Geometry usual;
    usual.heads = reader.integer("heads");
    usual.kv_heads = reader.integer("kv_heads");
    usual.head_dim = usual.value_dim = reader.integer("head_dim");
    // With latent attention, read_latent() reads the dims of values.
    if (reader.family().axes.attention == AttentionKind::gqa)
      usual.value_dim = reader.integer("value_dims", usual.head_dim);
    usual.sinks = reader.boolean("sinks");
    return usual;
  }

  void check_member(const JsonMember& member) {
    const auto layer = parse_whole(member.key);
    if (!layer || *layer >= reader_.integer("layers"))
      return refuse(member, "is not a layer of the model");
    if (member.value.object() == nullptr) return refuse(member, "must be an object");
    for (const JsonMember& field : *member.value.object())
      if ((field.key != kKeyHeads && field.key != kHeadDim) || field.value.integer() == nullptr ||
          *field.value.integer() < 1)
        refuse(field,
               "is not supported; supported are integers for head_dim and num_key_value_heads");
  }

  void refuse(const JsonMember& member, std::string_view why) {
    reader_.error("hf.config.attention_by_layer",
                  fmt::format("\"{}\" in \"{}\" {}", printable(member.key, 60),
                              reader_.key_of("attention_by_layer"), why),
                  &member.value);
  }

  static void take(const JsonValue& fields, Geometry& own) {
    const auto number = [&](const char* name, int64_t& into) {
      const JsonValue* value = fields.find(name);
      if (value != nullptr && value->integer() != nullptr) into = *value->integer();
    };
    number(kKeyHeads, own.kv_heads);
    number(kHeadDim, own.head_dim);
    own.value_dim = own.head_dim;
  }

  static constexpr const char* kKeyHeads = "num_key_value_heads";
  static constexpr const char* kHeadDim = "head_dim";

  ConfigReader& reader_;
  Geometry usual_, full_;
  std::vector<double> thetas_;
  std::vector<int64_t> heads_;
  bool by_layer_ = false;
};

// Reads the properties of attention that are the same in all layers.
AttentionConfig read_usual(ConfigReader& reader) {
  AttentionConfig attention;
  attention.heads = reader.integer("heads");
  attention.qkv_bias = reader.boolean("qkv_bias");
  attention.o_bias = reader.boolean("o_bias");
  if (reader.boolean("use_qk_norm", true)) attention.qk_norm = reader.family().axes.qk_norm;
  attention.temperature = read_temperature(reader);
  attention.scaling.value_scale = reader.optional_number("value_scale").value_or(1);
  attention.scaling.clip_qkv = reader.optional_number("clip_qkv");
  read_gate(reader, attention);
  if (reader.family().axes.attention == AttentionKind::cca)
    attention.convolved =
        ConvolvedConfig{reader.integer("channel_taps"), reader.integer("head_taps")};
  return attention;
}

AttentionConfig with_geometry(ConfigReader& reader, AttentionConfig attention,
                              const Geometry& geometry, RopeConfig rope) {
  attention.heads = geometry.heads;
  attention.kv_heads = geometry.kv_heads;
  attention.head_dim = geometry.head_dim;
  attention.value_dim = geometry.value_dim;
  attention.sinks = geometry.sinks;
  if (geometry.keys_are_values) attention.projections = Projections::keys_are_values;
  // max() keeps the quotient finite for an invalid config, which check_model() reports.
  const auto dims = static_cast<double>(std::max<int64_t>(1, attention.head_dim));
  attention.scale = reader.number("attention_scale", 1 / std::sqrt(dims));
  attention.rope = std::move(rope);
  if (reader.family().axes.attention == AttentionKind::mla) read_latent(reader, attention);
  return attention;
}

// Returns the geometry of each layer with attention; if there are none, a single default geometry.
std::vector<Geometry> geometries(ConfigReader& reader, const AttentionContext& context,
                                 const ModelConfig& model) {
  GeometryReader by_layer(reader);
  std::vector<Geometry> all;
  for (size_t i = 0; i < context.layer_types.size(); ++i)
    if (!is_recurrent(model.layers[i].mixer))
      all.push_back(by_layer.of(i, model.layers[i], context.layer_types[i]));
  // The model has at least one attention config, even if no layer uses it.
  if (all.empty()) all.push_back(by_layer.of(0, {}, "full_attention"));
  return all;
}

template <class Item>
size_t index_in(std::vector<Item>& items, Item item) {
  const auto found = std::find(items.begin(), items.end(), item);
  const auto index = static_cast<size_t>(found - items.begin());
  if (found == items.end()) items.push_back(std::move(item));
  return index;
}

}  // namespace

void read_attention(ConfigReader& reader, const AttentionContext& context, ModelConfig& model) {
  const AttentionConfig usual = read_usual(reader);
  std::vector<Geometry> different;
  std::vector<size_t> of_layer;
  for (Geometry& own : geometries(reader, context, model))
    of_layer.push_back(index_in(different, std::move(own)));
  std::vector<RopeUse> uses;
  // The layer type is part of a geometry, because rotary embeddings can differ by type.
  for (const Geometry& own : different) uses.push_back({own.layer_type, own.head_dim, own.theta});
  const std::vector<RopeConfig> ropes = read_ropes(reader, uses, context.max_positions);
  std::vector<AttentionConfig> kinds;
  std::vector<int64_t> kind_of;
  for (size_t i = 0; i < different.size(); ++i)
    // Two geometries can give equal configs, so the configs are compared as well.
    kind_of.push_back(static_cast<int64_t>(
        index_in(kinds, with_geometry(reader, usual, different[i], ropes[i]))));
  auto next = of_layer.begin();
  for (LayerConfig& layer : model.layers)
    if (!is_recurrent(layer.mixer) && next != of_layer.end()) layer.attention = kind_of[*next++];
  model.attention = kinds.front();
  model.more_attention.assign(kinds.begin() + 1, kinds.end());
}

}  // namespace moec
