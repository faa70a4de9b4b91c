#include "frontends/sources/gguf/layer_keys.h"

namespace moec {
namespace {

Result<GgufLayerValue> read_layer_value(JsonFields& fields, const JsonMember& member) {
  if (const bool* flag = member.value.boolean())
    return GgufLayerValue{.number = *flag ? 1.0 : 0.0, .is_flag = true};
  if (const auto number = member.value.number()) return GgufLayerValue{.number = *number};
  if (const std::string* name = member.value.string()) return GgufLayerValue{.concept_name = *name};
  return fields.bad("keys", "must have numbers, booleans and names of concepts");
}

Status read_layer_kind(JsonFields& item, GgufLayers& layers) {
  GgufLayerKind& kind = layers.kinds.emplace_back();
  MOEC_TRY(item.text("kind", kind.name));
  MOEC_ASSIGN(JsonFields keys, item.object("keys"));
  for (const JsonMember& member : keys.members()) {
    MOEC_ASSIGN(kind.keys[member.key], read_layer_value(keys, member));
  }
  return item.finish();
}

Status read_steps(JsonFields& fields, GgufLayers& layers) {
  MOEC_ASSIGN(JsonFields steps, fields.object("steps"));
  for (const JsonMember& member : steps.members()) {
    GgufLayerStep& step = layers.steps[member.key];
    MOEC_ASSIGN(JsonFields item, JsonFields::of(fields.report(), member.value, member.key));
    if (item.has("number")) MOEC_TRY(item.text("number", step.number));
    if (item.has("otherwise")) MOEC_TRY(item.integer("otherwise", step.otherwise.emplace()));
    if (item.has("from_first")) MOEC_TRY(item.boolean("from_first", step.from_first));
    MOEC_TRY(item.finish());
  }
  return {};
}

}  // namespace

Status read_layer_keys(JsonFields& fields, GgufLayers& layers) {
  if (!fields.has("layers")) return {};
  MOEC_ASSIGN(JsonFields item, fields.object("layers"));
  MOEC_TRY(item.text("list", layers.list));
  MOEC_TRY(item.each("kinds", [&](JsonFields& kind) { return read_layer_kind(kind, layers); }));
  if (item.has("steps")) MOEC_TRY(read_steps(item, layers));
  for (const auto& [key, step] : layers.steps)
    if (layers.kinds.size() != 2 || !layers.kinds[0].keys.contains(key) ||
        !layers.kinds[1].keys.contains(key))
      return item.bad("steps", "requires two kinds of layers with the key");
  return item.finish();
}

std::string_view layer_kind(const LayerConfig& layer) {
  if (layer.parts == LayerParts::feed_forward) return layer.moe ? "moe" : "mlp";
  switch (layer.mixer) {
    case MixerKind::attention:
      if (layer.window > 0) return "sliding_attention";
      return layer.chunk > 0 ? "chunked_attention" : "full_attention";
    case MixerKind::short_conv:
      return "conv";
    case MixerKind::gated_delta:
    case MixerKind::ssd:
    case MixerKind::kimi_delta:
      break;
  }
  return "linear_attention";
}

}  // namespace moec
