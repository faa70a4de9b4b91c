#include "frontends/sources/hf/config_rope.h"

#include <fmt/format.h>

#include <algorithm>

#include "frontends/sources/hf/rope_object.h"

namespace moec {
namespace {

class RopeReader {
 public:
  RopeReader(ConfigReader& reader, int64_t max_positions)
      : reader_(reader), max_positions_(max_positions) {}

  std::vector<RopeConfig> run(std::span<const RopeUse> uses) {
    // Marks the key as read, even if the embedding is unscaled.
    reader_.optional_integer("original_positions");
    find_object();
    if (is_by_layer_type(object_))
      take_types();
    else if (always_by_layer_type_)
      refuse_one_rotation();
    std::vector<RopeConfig> ropes;
    // Layers with equal embeddings share a result, so that an error is reported once.
    for (const RopeUse& use : uses) {
      const auto known = std::find_if(uses.begin(), uses.begin() + std::ssize(ropes),
                                      [&](const RopeUse& other) { return same(use, other); });
      const auto index = static_cast<size_t>(known - uses.begin());
      ropes.push_back(index < ropes.size() ? ropes[index] : rope_of(use));
    }
    if (always_by_layer_type_) warn_of_outside();
    return ropes;
  }

 private:
  bool same(const RopeUse& a, const RopeUse& b) const {
    return a.head_dim == b.head_dim && a.theta == b.theta &&
           (by_type_ == nullptr || a.layer_type == b.layer_type);
  }

  RopeConfig rope_of(const RopeUse& use) {
    if (by_type_ != nullptr) object_ = rotation_of(use.layer_type);
    RopeConfig rope =
        read_rope({object_, name_, max_positions_, by_default_, always_by_layer_type_},
                  use.head_dim, reader_);
    if (use.theta > 0) rope.theta = use.theta;
    return rope;
  }

  void find_object() {
    // transformers 5 writes "rope_parameters"; version 4 writes "rope_scaling".
    const JsonValue* version5 = reader_.key("rope_parameters");
    const JsonValue* version4 = reader_.key("rope_scaling");
    if (version5 != nullptr && version4 != nullptr && !(*version5 == *version4))
      reader_.error("hf.config.conflict",
                    "\"rope_parameters\" and \"rope_scaling\" differ, but have the same meaning",
                    version4, "remove the wrong one");
    if (always_by_layer_type_ && reader_.has("rope_scaling"))
      reader_.error("hf.config.unsupported_value",
                    fmt::format("\"rope_scaling\" is not supported for the family {}, whose rotary "
                                "embeddings per layer type are in \"rope_parameters\"",
                                reader_.family().model_type),
                    version4, "remove \"rope_scaling\"");
    // An empty rope_scaling means that the key is absent; an empty rope_parameters means an
    // unscaled embedding.
    if (version4 != nullptr && version4->object() != nullptr && version4->object()->empty())
      version4 = nullptr;
    name_ = version4 != nullptr && version5 == nullptr ? "rope_scaling" : "rope_parameters";
    object_ = version5 != nullptr ? version5 : version4;
    if (object_ == nullptr) return take_default();
    if (object_->object() != nullptr) return;
    reader_.error("hf.config.type",
                  fmt::format("\"{}\" must be an object, found {}", name_, kind_name(*object_)),
                  object_);
    object_ = nullptr;
  }

  void take_default() {
    object_ = reader_.fallback("rotation");
    by_default_ = object_ != nullptr;
  }

  static bool rotates_by_layer_type(const Family& family) {
    auto rotation = family.concepts.find("rotation");
    return rotation != family.concepts.end() && rotation->second.fallback &&
           is_by_layer_type(&*rotation->second.fallback);
  }

  static bool is_by_layer_type(const JsonValue* object) {
    if (object == nullptr || object->object() == nullptr) return false;
    const JsonValue::Object& members = *object->object();
    return std::any_of(members.begin(), members.end(),
                       [](const JsonMember& member) { return member.value.object() != nullptr; });
  }

  // Interprets the object as one rotary embedding per layer type; reports other keys as unknown.
  void take_types() {
    by_type_ = object_;
    for (const JsonMember& member : *by_type_->object())
      // "rope_type" may repeat the type next to the objects.
      if (member.value.object() == nullptr && member.key != "rope_type")
        reader_.error("hf.config.unknown_key",
                      fmt::format("unexpected key \"{}.{}\" ({}) next to the layer types", name_,
                                  printable(member.key, 80), to_string(member.value, 60)),
                      &member.value);
  }

  const JsonValue* rotation_of(const std::string& type) {
    const JsonValue* rotation = by_type_->find(type);
    if (rotation != nullptr && rotation->object() != nullptr) return rotation;
    reader_.error("hf.config.missing_key",
                  fmt::format("\"{}\" has no rotary embedding for the layer type \"{}\"", name_,
                              printable(type, 60)),
                  by_default_ ? nullptr : by_type_);
    return nullptr;
  }

  void refuse_one_rotation() {
    reader_.error(
        "hf.config.missing_key",
        fmt::format("\"{}\" must have an object per layer type, because the rotary embeddings of "
                    "the family {} differ by layer type",
                    name_, reader_.family().model_type),
        object_);
    object_ = nullptr;
  }

  // Warns about top-level keys: for families with a rotary embedding per layer type, the class in
  // transformers reads the base and the rotary factor only from the layer type's object.
  void warn_of_outside() {
    for (const char* key : {"rope_theta", "partial_rotary_factor"})
      if (const JsonValue* outside = reader_.peek(key))
        reader_.warning("hf.config.rope_outside",
                        fmt::format("\"{}\" ({}) is ignored by the family {}: \"rope_parameters\" "
                                    "has the rotary embedding of each layer type",
                                    key, to_string(*outside, 40), reader_.family().model_type),
                        outside);
  }

  ConfigReader& reader_;
  int64_t max_positions_;
  std::string_view name_;
  const JsonValue* object_ = nullptr;   // describes one rotary embedding
  const JsonValue* by_type_ = nullptr;  // one such object per layer type; null: a single one
  bool by_default_ = false;             // object_ is the descriptor's default
  const bool always_by_layer_type_ = rotates_by_layer_type(reader_.family());
};

}  // namespace

// Returns true if the config's position embedding is rotary, or if the family has no key for the
// position embedding.
static bool names_rotation(ConfigReader& reader) {
  if (reader.family().concepts.count("position_embedding") == 0) return true;
  const std::string name = reader.name("position_embedding");
  if (!name.empty() && name != "rope" && name != "nope")
    reader.error("hf.config.unsupported_value",
                 fmt::format("\"{}\" is \"{}\", but must be rope, nope or null",
                             reader.key_of("position_embedding"), printable(name, 60)),
                 reader.at("position_embedding"));
  return name == "rope";
}

std::vector<RopeConfig> read_ropes(ConfigReader& reader, std::span<const RopeUse> uses,
                                   int64_t max_positions) {
  RopeConfig none;
  none.style = RopeStyle::none;
  std::vector<RopeConfig> unrotated(uses.size(), none);
  if (reader.family().axes.rope == RopeStyle::none) return unrotated;
  // Read the rotary keys even if the model does not rotate, so that their errors are reported.
  std::vector<RopeConfig> rotations = RopeReader(reader, max_positions).run(uses);
  return names_rotation(reader) ? rotations : unrotated;
}

}  // namespace moec
