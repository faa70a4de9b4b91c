#include "frontends/sources/hf/rope_object.h"

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
      // The name of yarn in the release of sarvam_mla.
      {"deepseek_yarn",
       RopeScaling::yarn,
       {"factor", "original_max_position_embeddings", "beta_fast", "beta_slow", "mscale",
        "mscale_all_dim"}},
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

class RopeObjectReader {
 public:
  RopeObjectReader(const RopeObject& object, ConfigReader& reader)
      : object_(object), reader_(reader) {}

  RopeConfig read(int64_t head_dim) {
    const RopeType* found = object_.json == nullptr ? nullptr : type();
    rope_.style = style();
    rope_.theta = theta();
    // The proportional type rotates all dims; its factor becomes `share` instead.
    rope_.dims = found != nullptr && found->scaling == RopeScaling::proportional
                     ? head_dim
                     : rotary_dims(static_cast<double>(head_dim));
    if (found != nullptr) read_object(*found);
    return rope_;
  }

 private:
  RopeStyle style() {
    const RopeStyle usual = reader_.family().axes.rope;
    const bool interleaved = reader_.boolean("rope_interleaved", usual == RopeStyle::interleaved);
    return interleaved ? RopeStyle::interleaved : RopeStyle::half;
  }

  const JsonValue* field(std::string_view name) const {
    const JsonValue* value = object_.json == nullptr ? nullptr : object_.json->find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  }
  std::optional<double> number(std::string_view name) {
    const JsonValue* value = field(name);
    if (value == nullptr) return std::nullopt;
    if (!value->number())
      reader_.error("hf.config.type",
                    fmt::format("\"{}.{}\" must be a number, found {}", object_.name, name,
                                to_string(*value, 40)),
                    value);
    return value->number();
  }
  double needed(std::string_view name) {
    if (std::optional<double> value = number(name)) return *value;
    if (field(name) == nullptr)
      reader_.error(
          "hf.config.missing_key",
          fmt::format("\"{}\" has no \"{}\", which its rope type requires", object_.name, name),
          at(object_.json));
    // A neutral value: the config is refused, but the remaining keys are still checked.
    return 1;
  }

  // Returns the base. If both places have the key, they must agree.
  double theta() {
    if (object_.by_layer_type) return object_.json == nullptr ? 0 : needed("rope_theta");
    double outside = reader_.number("rope_theta", 10000);
    std::optional<double> inside = number("rope_theta");
    // `outside` can be a default. Only a key that exists can contradict the object.
    const JsonValue* top = reader_.key("rope_theta");
    if (inside && top != nullptr && *inside != outside)
      reader_.error("hf.config.conflict",
                    fmt::format("\"rope_theta\" is {}, but inside \"{}\" it is {}", outside,
                                object_.name, *inside),
                    top, "remove the wrong one");
    return inside.value_or(outside);
  }

  double rotary_factor() {
    if (object_.by_layer_type) return factor_of_type();
    double outside = reader_.number("rotary_factor", 1);
    const JsonValue* inside = field("partial_rotary_factor");
    std::optional<double> factor = number("partial_rotary_factor");
    if (!factor || *factor == outside) return outside;
    // The factor of the object replaces the default if the top-level key is absent.
    if (reader_.key_of("rotary_factor") == "partial_rotary_factor" &&
        reader_.key("partial_rotary_factor") == nullptr)
      return *factor;
    reader_.error("hf.config.unsupported_value",
                  fmt::format("\"{}.partial_rotary_factor\" is {}, but must be {}", object_.name,
                              *factor, outside),
                  inside);
    return outside;
  }

  // Returns the rotary factor. Some classes ignore the key for an unscaled embedding and always
  // rotate the same share of a head.
  double factor_of_type() {
    const std::optional<double> inside = number("partial_rotary_factor");
    const auto rule = reader_.family().concepts.find("rotary_factor");
    if (rule == reader_.family().concepts.end()) return inside.value_or(1);
    if (!rule->second.keys.empty()) {
      const JsonValue* usual = reader_.fallback("rotary_factor");
      const std::optional<double> otherwise = usual == nullptr ? std::nullopt : usual->number();
      return inside.value_or(otherwise.value_or(1));
    }
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
    const Family& family = reader_.family();
    if (family.axes.attention == AttentionKind::mla && family.concepts.count("rotary_dims") > 0)
      return shared_dims(head_dim);
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

  // With latent attention, the dims that all keys share rotate. In families with the concept
  // `rotary_dims`, a factor states their share of a head's keys.
  int64_t shared_dims(double shared) {
    reader_.optional_integer("rotary_dims");  // `shared`, which has the same key
    const double factor = number("partial_rotary_factor").value_or(1);
    const auto content = static_cast<double>(reader_.integer("key_dims"));
    if (factor != 1 && std::floor(factor * (content + shared)) != shared)
      reader_.error("hf.config.unsupported_value",
                    fmt::format("\"{}.partial_rotary_factor\" is {}, but {} of {} dims rotate",
                                object_.name, factor, shared, content + shared),
                    field("partial_rotary_factor"));
    return static_cast<int64_t>(shared);
  }

  const RopeType* type() {
    const JsonValue* value = field("rope_type");
    const JsonValue* old = field("type");
    if (value != nullptr && old != nullptr && !(*value == *old))
      reader_.error("hf.config.conflict",
                    fmt::format("\"{0}.rope_type\" and \"{0}.type\" differ", object_.name), old);
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
    switch (rope_.scaling) {
      case RopeScaling::none:
        return;
      case RopeScaling::proportional:
        return read_proportional();
      case RopeScaling::longrope:
        return read_longrope();
      case RopeScaling::linear:
      case RopeScaling::llama3:
      case RopeScaling::yarn:
        break;
    }
    // transformers uses the model's maximum positions if the key is absent.
    rope_.original_max_positions = number("original_max_position_embeddings")
                                       .value_or(static_cast<double>(object_.max_positions));
    if (rope_.scaling == RopeScaling::yarn) return read_yarn();
    rope_.factor = needed("factor");
    if (rope_.scaling != RopeScaling::llama3) return;
    rope_.low_freq_factor = needed("low_freq_factor");
    rope_.high_freq_factor = needed("high_freq_factor");
  }

  void read_proportional() {
    rope_.share =
        object_.by_layer_type ? number("partial_rotary_factor").value_or(1) : rotary_factor();
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
      reader_.error(
          "hf.config.conflict",
          fmt::format("\"{}\" is {}, but inside \"{}\" it is {}",
                      reader_.key_of("original_positions"), *outside, object_.name, *inside),
          reader_.at("original_positions"), "remove the wrong one");
    return inside.value_or(static_cast<double>(outside.value_or(object_.max_positions)));
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
                    fmt::format("\"{}.{}\" must be a list of numbers", object_.name, name),
                    list == nullptr ? object_.json : list);
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
                        object_.name, key, to_string(*unread, 40), reader_.family().model_type),
            at(unread));
  }

  // Refuses unknown keys. The mrope sections assign rotary pairs to image coordinates. For text,
  // all coordinates equal the position, so sections have no effect.
  void check_keys(const RopeType& found) {
    static constexpr std::string_view kAlways[] = {"rope_type", "type", "rope_theta",
                                                   "partial_rotary_factor"};
    static constexpr std::string_view kSections[] = {"mrope_section", "mrope_interleaved"};
    static constexpr std::string_view kTempered[] = {kTemperatureScale, "max_position_embeddings"};
    const bool has_sections = reader_.boolean("rope_sections", false);
    const bool tempered = reader_.family().axes.tempered == TemperedLayers::all;
    auto lists = [](auto&& names, std::string_view key) {
      return std::find(std::begin(names), std::end(names), key) != std::end(names);
    };
    for (const JsonMember& member : *object_.json->object()) {
      if (member.value.is_null() || lists(kAlways, member.key) || lists(found.keys, member.key) ||
          (has_sections && lists(kSections, member.key)) ||
          (tempered && lists(kTempered, member.key)))
        continue;
      reader_.error("hf.config.unknown_key",
                    fmt::format("unknown key \"{}.{}\" ({}) for the rope type \"{}\"", object_.name,
                                printable(member.key, 80), to_string(member.value, 60), found.name),
                    &member.value);
    }
  }

  // As in transformers, a null factor means the ratio of the two context lengths, and betas of 0 or
  // null mean the defaults.
  void read_yarn() {
    double ratio = static_cast<double>(object_.max_positions) / rope_.original_max_positions;
    const bool has_ratio = field("original_max_position_embeddings") != nullptr;
    rope_.factor = has_ratio ? number("factor").value_or(ratio) : needed("factor");
    if (ratio != rope_.factor && ratio != 1)
      reader_.warning("hf.config.rope_factor",
                      fmt::format("the YaRN factor is {}, but the ratio of the context lengths is "
                                  "{}; the factor is used",
                                  rope_.factor, ratio),
                      at(object_.json));
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
      reader_.error("hf.config.type",
                    fmt::format("\"{}.truncate\" must be true or false", object_.name), truncate);
  }

  // Returns `value` as the place of a message; null if `value` is part of a default, which has no
  // place in the config.
  const JsonValue* at(const JsonValue* value) const { return object_.by_default ? nullptr : value; }

  const RopeObject& object_;
  ConfigReader& reader_;
  RopeConfig rope_;
};

}  // namespace

RopeConfig read_rope(const RopeObject& object, int64_t head_dim, ConfigReader& reader) {
  return RopeObjectReader(object, reader).read(head_dim);
}

}  // namespace moec
