#include "frontends/sources/hf/config_rope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace moec {
namespace {

// A rope type of configs, with the keys that it accepts.
struct RopeType {
  std::string_view name;
  RopeScaling scaling;
  std::vector<std::string_view> keys;
};

const std::vector<RopeType>& rope_types() {
  static const std::vector<RopeType> types = {
      {"default", RopeScaling::none, {}},
      {"linear", RopeScaling::linear, {"factor"}},
      {"llama3",
       RopeScaling::llama3,
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}},
      {"yarn",
       RopeScaling::yarn,
       {"factor", "original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow",
        "mscale", "mscale_all_dim", "truncate"}},
      {"longrope",
       RopeScaling::longrope,
       {"short_factor", "long_factor", "short_mscale", "long_mscale",
        "original_max_position_embeddings"}},
      // The reference reads only `factor` and, in some families, `alpha`.
      {"dynamic",
       RopeScaling::none,
       {"alpha", "factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim",
        "original_max_position_embeddings"}},
      {"proportional", RopeScaling::proportional, {"factor"}},
      // Only in configs that frontends/sources/gguf generates: GGUF files store a divisor per
      // frequency.
      {kFrequencyDivisors,
       RopeScaling::longrope,
       {"short_factor", "long_factor", "short_mscale", "long_mscale",
        "original_max_position_embeddings"}},
  };
  return types;
}

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
    return a.head_dim == b.head_dim && (by_type_ == nullptr || a.layer_type == b.layer_type);
  }

  RopeConfig rope_of(const RopeUse& use) {
    if (by_type_ != nullptr) object_ = rotation_of(use.layer_type);
    const RopeType* found = object_ == nullptr ? nullptr : type();
    rope_ = {};
    rope_.style = style();
    rope_.theta = theta();
    // The proportional type rotates all dims; its factor becomes `share` instead.
    rope_.dims = found != nullptr && found->scaling == RopeScaling::proportional
                     ? use.head_dim
                     : rotary_dims(static_cast<double>(use.head_dim));
    if (found != nullptr) read_object(*found);
    return rope_;
  }

  RopeStyle style() {
    const RopeStyle usual = reader_.family().axes.rope;
    const bool interleaved = reader_.boolean("rope_interleaved", usual == RopeStyle::interleaved);
    return interleaved ? RopeStyle::interleaved : RopeStyle::half;
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

  // Returns `value` as the place of a message; null if `value` is part of a default, which has no
  // place in the config.
  const JsonValue* at(const JsonValue* value) const { return by_default_ ? nullptr : value; }

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
                  at(by_type_));
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

  const JsonValue* field(std::string_view name) const {
    const JsonValue* value = object_ == nullptr ? nullptr : object_->find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::optional<double> number(std::string_view name) {
    const JsonValue* value = field(name);
    if (value == nullptr) return std::nullopt;
    if (!value->number())
      reader_.error(
          "hf.config.type",
          fmt::format("\"{}.{}\" must be a number, found {}", name_, name, to_string(*value, 40)),
          value);
    return value->number();
  }
  double needed(std::string_view name) {
    if (std::optional<double> value = number(name)) return *value;
    if (field(name) == nullptr)
      reader_.error("hf.config.missing_key",
                    fmt::format("\"{}\" has no \"{}\", which its rope type requires", name_, name),
                    at(object_));
    // A neutral value: the config is refused, but the remaining keys are still checked.
    return 1;
  }

  // Returns the base. If both places have the key, they must agree.
  double theta() {
    if (always_by_layer_type_) return object_ == nullptr ? 0 : needed("rope_theta");
    double outside = reader_.number("rope_theta", 10000);
    std::optional<double> inside = number("rope_theta");
    // `outside` can be a default. Only a key that exists can contradict the object.
    const JsonValue* top = reader_.key("rope_theta");
    if (inside && top != nullptr && *inside != outside)
      reader_.error(
          "hf.config.conflict",
          fmt::format("\"rope_theta\" is {}, but inside \"{}\" it is {}", outside, name_, *inside),
          top, "remove the wrong one");
    return inside.value_or(outside);
  }

  double rotary_factor() {
    if (always_by_layer_type_) return factor_of_type();
    double outside = reader_.number("rotary_factor", 1);
    const JsonValue* inside = field("partial_rotary_factor");
    std::optional<double> factor = number("partial_rotary_factor");
    if (!factor || *factor == outside) return outside;
    // The factor of the object replaces the default if the top-level key is absent.
    if (reader_.key_of("rotary_factor") == "partial_rotary_factor" &&
        reader_.key("partial_rotary_factor") == nullptr)
      return *factor;
    reader_.error(
        "hf.config.unsupported_value",
        fmt::format("\"{}.partial_rotary_factor\" is {}, but must be {}", name_, *factor, outside),
        inside);
    return outside;
  }

  // Returns the rotary factor. Some classes ignore the key for an unscaled embedding and always
  // rotate the same share of a head.
  double factor_of_type() {
    const std::optional<double> inside = number("partial_rotary_factor");
    const auto rule = reader_.family().concepts.find("rotary_factor");
    if (rule == reader_.family().concepts.end() || !rule->second.keys.empty())
      return inside.value_or(1);
    const double fixed = reader_.number("rotary_factor", 1);
    if (inside && *inside != fixed)
      reader_.warning("hf.config.rope_unread",
                      fmt::format("\"{}\" ({}) is ignored by the family {} for this rope type",
                                  "partial_rotary_factor", *inside, reader_.family().model_type),
                      at(field("partial_rotary_factor")));
    return fixed;
  }

  // Returns the number of rotated dims. A config can specify the number, its share of the head, or
  // both.
  int64_t rotary_dims(double head_dim) {
    const auto share = static_cast<int64_t>(std::floor(head_dim * rotary_factor()));
    const std::optional<int64_t> dims = reader_.optional_integer("rotary_dims");
    if (!dims) return share;
    const bool both =
        field("partial_rotary_factor") != nullptr || reader_.at("rotary_factor") != nullptr;
    if (both && *dims != share)
      reader_.error("hf.config.conflict",
                    fmt::format("\"{}\" is {}, but \"partial_rotary_factor\" implies {}",
                                reader_.key_of("rotary_dims"), *dims, share),
                    reader_.at("rotary_dims"), "remove the wrong one");
    return *dims;
  }

  const RopeType* type() {
    const JsonValue* value = field("rope_type");
    const JsonValue* old = field("type");
    if (value != nullptr && old != nullptr && !(*value == *old))
      reader_.error("hf.config.conflict",
                    fmt::format("\"{0}.rope_type\" and \"{0}.type\" differ", name_), old);
    if (value == nullptr) value = old;
    // transformers treats an absent type as "default", the first entry.
    if (value == nullptr) return &rope_types().front();
    std::vector<std::string_view> known;
    for (const RopeType& candidate : rope_types()) {
      if (value->string() != nullptr && *value->string() == candidate.name)
        return is_taken(candidate, *value) ? &candidate : nullptr;
      // The generated type is internal, so messages do not offer it.
      if (candidate.name != kFrequencyDivisors) known.push_back(candidate.name);
    }
    reader_.error("hf.config.unknown_rope",
                  fmt::format("unknown rope type {}; known: {}", to_string(*value, 40),
                              fmt::join(known, ", ")),
                  value);
    return nullptr;
  }

  // Returns true if the family supports the rope type. Some classes support only the types that the
  // descriptor's `rotation` lists.
  bool is_taken(const RopeType& type, const JsonValue& at_value) {
    const auto rotation = reader_.family().concepts.find("rotation");
    if (rotation == reader_.family().concepts.end() || rotation->second.only.empty() ||
        type.name == kFrequencyDivisors)
      return true;
    const std::vector<std::string>& only = rotation->second.only;
    if (std::find(only.begin(), only.end(), type.name) != only.end()) return true;
    reader_.error("hf.config.unsupported_value",
                  fmt::format("the rope type is \"{}\"; for the family {} it must be {}", type.name,
                              reader_.family().model_type, fmt::join(only, " or ")),
                  at(&at_value));
    return false;
  }

  void read_object(const RopeType& found) {
    check_keys(found);
    if (found.name == "dynamic") return read_dynamic();
    rope_.scaling = found.scaling;
    if (rope_.scaling == RopeScaling::none) return;
    if (rope_.scaling == RopeScaling::proportional) return read_proportional();
    // transformers uses the model's maximum positions if the key is absent.
    rope_.original_max_positions =
        number("original_max_position_embeddings").value_or(static_cast<double>(max_positions_));
    if (rope_.scaling == RopeScaling::yarn) return read_yarn();
    if (rope_.scaling == RopeScaling::longrope) return read_longrope();
    rope_.factor = needed("factor");
    if (rope_.scaling != RopeScaling::llama3) return;
    rope_.low_freq_factor = needed("low_freq_factor");
    rope_.high_freq_factor = needed("high_freq_factor");
  }

  void read_proportional() {
    rope_.share =
        always_by_layer_type_ ? number("partial_rotary_factor").value_or(1) : rotary_factor();
    rope_.factor = number("factor").value_or(1);
  }

  void read_longrope() {
    rope_.original_max_positions = original_positions();
    rope_.short_factors = {numbers("short_factor"), needed("short_mscale")};
    rope_.long_factors = {numbers("long_factor"), needed("long_mscale")};
  }

  // Returns the original context length. If both places have the key, they must agree.
  double original_positions() {
    const std::optional<double> inside = number("original_max_position_embeddings");
    const std::optional<int64_t> outside = reader_.optional_integer("original_positions");
    if (inside && outside && *inside != static_cast<double>(*outside))
      reader_.error("hf.config.conflict",
                    fmt::format("\"{}\" is {}, but inside \"{}\" it is {}",
                                reader_.key_of("original_positions"), *outside, name_, *inside),
                    reader_.at("original_positions"), "remove the wrong one");
    return inside.value_or(static_cast<double>(outside.value_or(max_positions_)));
  }

  std::vector<double> numbers(std::string_view name) {
    const JsonValue* list = field(name);
    std::vector<double> values;
    if (list != nullptr && list->array() != nullptr)
      for (const JsonValue& item : *list->array())
        if (const std::optional<double> value = item.number()) values.push_back(*value);
    // Equal sizes mean that every entry is a number.
    if (list == nullptr || list->array() == nullptr || values.size() != list->array()->size())
      reader_.error("hf.config.type",
                    fmt::format("\"{}.{}\" must be a list of numbers", name_, name),
                    list == nullptr ? object_ : list);
    return values;
  }

  // With the rope type "dynamic", the base grows only for texts longer than the model's maximum
  // positions, which no context exceeds (plan.context). For shorter texts, it is the config's base,
  // which some families scale by a fixed alpha.
  void read_dynamic() {
    // Required, although the value has no effect on supported contexts.
    needed("factor");
    const bool reads_alpha = reader_.boolean("rope_alpha", false);
    const auto dims = static_cast<double>(rope_.dims);
    if (reads_alpha && field("alpha") != nullptr)
      // NTK scaling: theta · alpha^(d / (d − 2)).
      rope_.theta *= std::pow(needed("alpha"), dims / (dims - 2));
    for (const char* key : {"alpha", "original_max_position_embeddings"})
      // *key == 'a' selects "alpha", which has just been read.
      if (const JsonValue* unread = field(key); unread != nullptr && !(reads_alpha && *key == 'a'))
        reader_.warning(
            "hf.config.rope_unread",
            fmt::format("\"{}.{}\" ({}) is ignored by the family {} with the rope type \"dynamic\"",
                        name_, key, to_string(*unread, 40), reader_.family().model_type),
            at(unread));
  }

  // Refuses unknown keys. The mrope sections assign rotary pairs to image coordinates. For text,
  // all coordinates equal the position, so sections have no effect.
  void check_keys(const RopeType& found) {
    static constexpr std::string_view kAlways[] = {"rope_type", "type", "rope_theta",
                                                   "partial_rotary_factor"};
    static constexpr std::string_view kSections[] = {"mrope_section", "mrope_interleaved"};
    const bool has_sections = reader_.boolean("rope_sections", false);
    auto lists = [](auto&& names, std::string_view key) {
      return std::find(std::begin(names), std::end(names), key) != std::end(names);
    };
    for (const JsonMember& member : *object_->object()) {
      if (member.value.is_null() || lists(kAlways, member.key) || lists(found.keys, member.key) ||
          (has_sections && lists(kSections, member.key)))
        continue;
      reader_.error("hf.config.unknown_key",
                    fmt::format("unknown key \"{}.{}\" ({}) for the rope type \"{}\"", name_,
                                printable(member.key, 80), to_string(member.value, 60), found.name),
                    &member.value);
    }
  }

  // As in transformers, a null factor means the ratio of the two context lengths, and betas of 0 or
  // null mean the defaults.
  void read_yarn() {
    double ratio = static_cast<double>(max_positions_) / rope_.original_max_positions;
    const bool has_ratio = field("original_max_position_embeddings") != nullptr;
    rope_.factor = has_ratio ? number("factor").value_or(ratio) : needed("factor");
    if (ratio != rope_.factor && ratio != 1)
      reader_.warning("hf.config.rope_factor",
                      fmt::format("the YaRN factor is {}, but the ratio of the context lengths is "
                                  "{}; the factor is used",
                                  rope_.factor, ratio),
                      at(object_));
    auto or_default = [](std::optional<double> value, double otherwise) {
      return value.value_or(0) != 0 ? *value : otherwise;
    };
    rope_.yarn.fast = or_default(number("beta_fast"), 32);
    rope_.yarn.slow = or_default(number("beta_slow"), 1);
    rope_.attention_factor = number("attention_factor");
    rope_.mscale = number("mscale");
    rope_.mscale_all_dim = number("mscale_all_dim");
    const JsonValue* truncate = field("truncate");
    if (truncate == nullptr) return;
    if (truncate->boolean() != nullptr)
      rope_.yarn.truncate = *truncate->boolean();
    else
      reader_.error("hf.config.type", fmt::format("\"{}.truncate\" must be true or false", name_),
                    truncate);
  }

  ConfigReader& reader_;
  int64_t max_positions_;
  std::string_view name_;
  const JsonValue* object_ = nullptr;   // describes one rotary embedding
  const JsonValue* by_type_ = nullptr;  // one such object per layer type; null: a single one
  bool by_default_ = false;             // object_ is the descriptor's default
  const bool always_by_layer_type_ = rotates_by_layer_type(reader_.family());
  RopeConfig rope_;
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
