#include "frontends/sources/gguf/gguf_rope.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "frontends/sources/hf/rope_object.h"

namespace moec {
namespace {

constexpr std::string_view kLogMultiplier = "rope.scaling.yarn_log_multiplier";
constexpr std::string_view kAttentionFactor = "rope.scaling.attn_factor";
constexpr std::array<std::string_view, 7> kRopeKeys = {
    "rope.freq_base",    "rope.dimension_count", "rope.scale_linear",
    "rope.scaling.type", "rope.scaling.factor",  "rope.scaling.original_context_length",
    kAttentionFactor};

// Added to the fraction of a head that rotates, because the reader of a config rounds the product
// of the fraction and the head's dims down.
constexpr double kRoundingOfQuotients = 1e-12;

bool is_latent(const GgufModel& model) { return model.family.axes.attention == AttentionKind::mla; }

class RopeWriter {
 public:
  RopeWriter(const GgufModel& model, const ReadFloats& read)
      : model_(model), values_(model.file.values), read_(read) {}

  Result<std::string> run() {
    const std::vector<GgufRotation>& rotations = model_.architecture.rotations;
    if (rotations.empty()) return rotation_text();
    std::vector<std::string> objects;
    for (const GgufRotation& rotation : rotations) {
      members_.clear();
      rotation_ = rotation;
      MOEC_TRY(check_unscaled());
      MOEC_ASSIGN(const std::string text, rotation_text());
      objects.push_back(fmt::format("\"{}\": {}", rotation.kind, text));
    }
    return fmt::format("{{{}}}", fmt::join(objects, ", "));
  }

 private:
  Result<std::string> rotation_text() {
    MOEC_TRY(check_dims());
    MOEC_ASSIGN(const float base, number("rope.freq_base", 10000));
    MOEC_ASSIGN(const float own_base, number(rotation_.base, base));
    set("rope_theta", own_base);
    if (!model_.architecture.rotations.empty()) MOEC_TRY(take_rotated_part());
    MOEC_TRY(check_sections());
    if (!rotation_.scaled) {
      set_type("default");
      return joined_members();
    }
    MOEC_ASSIGN(const std::string type, scaling_type());
    if (is_latent(model_)) MOEC_TRY(check_latent(type));
    if (type == "yarn") {
      MOEC_TRY(take_yarn());
    } else {
      MOEC_TRY(type == "linear" ? take_linear() : Status());
      MOEC_TRY(take_factors(type == "longrope"));
    }
    return joined_members();
  }

  std::string joined_members() const {
    std::vector<std::string> members;
    for (const auto& [key, value] : members_)
      members.push_back(fmt::format("\"{}\": {}", key, value));
    return fmt::format("{{{}}}", fmt::join(members, ", "));
  }

  // Sets the rotated fraction of a head, from which a config's reader rounds down to whole dims.
  Status take_rotated_part() {
    MOEC_ASSIGN(const uint32_t usual_head, head_dims());
    MOEC_ASSIGN(const uint32_t head, integer(rotation_.head, usual_head));
    MOEC_ASSIGN(const uint32_t usual, integer("rope.dimension_count", usual_head));
    MOEC_ASSIGN(const uint32_t rotated, integer(rotation_.dims, usual));
    set("partial_rotary_factor", rotated == head || head == 0
                                     ? 1.0
                                     : static_cast<double>(rotated) / head + kRoundingOfQuotients);
    return {};
  }

  template <class T>
  void set(const std::string& key, const T& value) {
    members_[key] = fmt::format("{}", value);
  }
  void set_type(std::string_view type) { members_["rope_type"] = fmt::format("\"{}\"", type); }

  Result<float> number(std::string_view name, float otherwise) {
    MOEC_ASSIGN(const auto value, model_.number(name));
    return value.value_or(otherwise);
  }
  Result<uint32_t> integer(std::string_view name, uint32_t otherwise) {
    MOEC_ASSIGN(const auto value, values_.find<uint32_t>(model_.key(name)));
    return value.value_or(otherwise);
  }

  tl::unexpected<Diagnostics> refuse(std::string cause) const {
    return fail("gguf.rope", std::move(cause), "use the Hugging Face checkpoint of the model",
                {.file = values_.file()});
  }

  Result<uint32_t> head_dims() {
    MOEC_ASSIGN(const auto hidden, values_.get<uint32_t>(model_.key("embedding_length")));
    MOEC_ASSIGN(const auto heads, values_.get<uint32_t>(model_.key("attention.head_count")));
    // An untrusted file can have 0 heads, and the quotient is only a default.
    return integer("attention.key_length", heads == 0 ? 0 : hidden / heads);
  }

  // Architectures without `rotates_heads` can rotate a part of a head.
  Status check_dims() {
    if (!model_.architecture.rotates_heads) return {};
    MOEC_ASSIGN(const uint32_t dims, head_dims());
    MOEC_ASSIGN(const uint32_t rotated, integer("rope.dimension_count", dims));
    if (rotated == dims) return {};
    return refuse(fmt::format("{} is {}, but in this architecture all {} dims of a head rotate",
                              model_.key("rope.dimension_count"), rotated, dims));
  }

  // Refuses scalings in architectures that apply them to some layers only, in parts.
  Status check_unscaled() {
    const std::vector<RopeScaling>& known = model_.architecture.writing.scalings;
    if (std::find(known.begin(), known.end(), RopeScaling::yarn) != known.end()) return {};
    MOEC_ASSIGN(const std::string type, scaling_type());
    MOEC_ASSIGN(const float by, factor());
    MOEC_ASSIGN(const float amplitude, number(kAttentionFactor, 1));
    if ((type == "none" || type == "linear") && by == 1 && amplitude == 1) return {};
    return refuse(fmt::format("rotary scalings are not supported in the architecture {}",
                              model_.architecture.name));
  }

  // llama.cpp requires the numbers of pairs of each coordinate of an image patch in the
  // architectures that write them, and assigns pair i to coordinate i mod 3. A pair beyond its
  // coordinate's number belongs to a fourth coordinate, which is 0 for all tokens of a text.
  Status check_sections() {
    constexpr std::string_view kSections = "rope.dimension_sections";
    if (!model_.architecture.writing.keys.contains(kSections)) return {};
    MOEC_ASSIGN(const std::vector<int64_t> counts, model_.integers(kSections));
    MOEC_ASSIGN(const uint32_t head, head_dims());
    MOEC_ASSIGN(const uint32_t rotated, integer("rope.dimension_count", head));
    const auto pairs = int64_t{rotated} / 2;
    // The last pair of each coordinate is the largest one below `pairs`.
    bool covered = counts.size() == 4 && counts[3] == 0;
    for (int64_t pair = std::max<int64_t>(0, pairs - 3); covered && pair < pairs; ++pair)
      covered = pair < 3 * counts[static_cast<size_t>(pair % 3)];
    if (covered) return {};
    return refuse(fmt::format("{} is [{}], which does not cover the {} pairs that rotate",
                              model_.key(kSections), fmt::join(counts, ", "), pairs));
  }

  // Refuses scalings of latent attention that llama.cpp computes differently from the families: a
  // linear factor, or an amplitude other than 1.
  Status check_latent(const std::string& type) {
    MOEC_ASSIGN(const float by, factor());
    if (type == "linear" && by != 1)
      return refuse("linear rotary scaling is not supported with latent attention");
    MOEC_ASSIGN(const float amplitude, number(kAttentionFactor, 1));
    if (amplitude == 1) return {};
    return refuse(fmt::format("{} is {}; with latent attention only 1 is supported",
                              model_.key(kAttentionFactor), amplitude));
  }

  // Files that predate the key rope.scaling.type have only a factor, which means linear scaling.
  Result<std::string> scaling_type() {
    set_type("default");
    MOEC_ASSIGN(const auto type, values_.find<std::string_view>(model_.key("rope.scaling.type")));
    if (!type) {
      const bool scaled = values_.has(model_.key("rope.scaling.factor")) ||
                          values_.has(model_.key("rope.scale_linear"));
      return std::string(scaled ? "linear" : "none");
    }
    for (const char* known : {"none", "linear", "yarn", "longrope"})
      if (*type == known) return std::string(known);
    return refuse(fmt::format("{} is \"{}\"; supported are none, linear, yarn and longrope",
                              model_.key("rope.scaling.type"), printable(*type, 40)));
  }

  // "rope.scale_linear" is the older name; the newer key takes precedence.
  Result<float> factor() {
    MOEC_ASSIGN(const float old, number("rope.scale_linear", 1));
    return number("rope.scaling.factor", old);
  }

  Status take_linear() {
    MOEC_ASSIGN(const float by, factor());
    if (by == 1) return {};
    set_type("linear");
    set("factor", by);
    return {};
  }

  Status take_yarn() {
    set_type("yarn");
    MOEC_ASSIGN(const float by, factor());
    MOEC_ASSIGN(const uint32_t context, integer("context_length", 0));
    // Without this key, the scaling applies to the model's own context length.
    MOEC_ASSIGN(const uint32_t original, integer("rope.scaling.original_context_length", context));
    set("factor", by);
    set("original_max_position_embeddings", original);
    // The two betas are llama.cpp's defaults.
    set("beta_fast", 32);
    set("beta_slow", 1);
    if (!model_.architecture.yarn_rounds) members_["truncate"] = "false";
    if (model_.family.axes.tempered == TemperedLayers::all) MOEC_TRY(take_temperature(original));
    return is_latent(model_) ? take_latent_yarn() : take_attention_factor(by);
  }

  // Configs of families that scale the queries of all layers have the scale in the rotation.
  Status take_temperature(uint32_t original) {
    MOEC_ASSIGN(const float scale, number("attention.temperature_scale", 0));
    MOEC_ASSIGN(const uint32_t length, integer("attention.temperature_length", original));
    set(std::string(kTemperatureScale), scale);
    if (scale == 0 || length == original) return {};
    return refuse(
        fmt::format("{} is {}, but the original context length is {}; only equal values "
                    "are supported",
                    model_.key("attention.temperature_length"), length, original));
  }

  // llama.cpp multiplies the scores by (1 + multiplier · ln factor)² and does not scale cos and
  // sin. A config expresses this as mscale = mscale_all_dim = 10 · multiplier.
  Status take_latent_yarn() {
    MOEC_ASSIGN(const float multiplier, number(kLogMultiplier, 0));
    if (multiplier == 0) {
      set("attention_factor", 1);
      return {};
    }
    const float mscale = multiplier * 10;
    set("mscale", mscale);
    set("mscale_all_dim", mscale);
    return {};
  }

  // The key is a factor of cos and sin in addition to 1 + 0.1 · ln factor; a config has the
  // product.
  Status take_attention_factor(float by) {
    MOEC_ASSIGN(const float more, number(kAttentionFactor, 1));
    if (more != 1) set("attention_factor", double{more} * (1 + 0.1 * std::log(double{by})));
    return {};
  }

  Result<std::string> factors_of(const GgufTensor& tensor) {
    MOEC_ASSIGN(const std::vector<float> factors, read_(tensor));
    return fmt::format("[{}]", fmt::join(factors, ", "));
  }

  // Reads the frequency divisors from tensors, and the amplitude. `needed`: the type requires
  // tensors.
  Status take_factors(bool needed) {
    // One tensor serves short and long contexts, or each of the two lengths has its own tensor.
    const GgufTensor* both = model_.find(kGgufRopeFactors);
    const GgufTensor* brief = both ? both : model_.find("rope_factors_short.weight");
    const GgufTensor* wide = both ? both : model_.find("rope_factors_long.weight");
    MOEC_ASSIGN(const float amplitude, number(kAttentionFactor, 1));
    if (brief != nullptr && wide != nullptr) {
      // A config cannot express a scaling factor in addition to divisors.
      if (members_["rope_type"] != "\"default\"")
        return refuse("the rotary embedding has both a scaling factor and a tensor of factors");
      if (writes_proportional()) return take_proportional(*both);
      MOEC_ASSIGN(members_["short_factor"], factors_of(*brief));
      MOEC_ASSIGN(members_["long_factor"], factors_of(*wide));
    } else if (needed) {
      return refuse(
          "the tensors rope_factors_short.weight and rope_factors_long.weight of the rotary "
          "embedding are missing");
    } else if (amplitude == 1) {
      // Without tensors and with amplitude 1, the rope type is already complete.
      return {};
    } else {
      MOEC_TRY(take_equal_factors());
    }
    return take_amplitude(amplitude);
  }

  bool writes_proportional() const {
    const std::vector<RopeScaling>& known = model_.architecture.writing.scalings;
    return std::find(known.begin(), known.end(), RopeScaling::proportional) != known.end();
  }

  // Reads divisors of which the first ones are equal and the others stop the rotation.
  Status take_proportional(const GgufTensor& tensor) {
    MOEC_ASSIGN(const std::vector<float> divisors, read_(tensor));
    const auto rotated = std::find_if(divisors.begin(), divisors.end(),
                                      [](float divisor) { return divisor >= kUnrotatedDivisor; }) -
                         divisors.begin();
    const float factor = rotated > 0 ? divisors.front() : 1;
    const bool is_proportional =
        std::all_of(divisors.begin(), divisors.begin() + rotated,
                    [&](float divisor) { return divisor == factor; }) &&
        std::all_of(divisors.begin() + rotated, divisors.end(),
                    [](float divisor) { return divisor >= kUnrotatedDivisor; });
    if (!is_proportional || divisors.empty() || factor <= 0)
      return refuse(fmt::format("the divisors in {} are not those of a proportional rotation",
                                kGgufRopeFactors));
    set_type("proportional");
    set("factor", factor);
    set("partial_rotary_factor",
        std::min(1.0, static_cast<double>(rotated) / static_cast<double>(divisors.size()) +
                          kRoundingOfQuotients));
    return {};
  }

  // Writes the same divisor for all frequencies: the rope type with divisors is the only one that
  // has an amplitude in every family.
  Status take_equal_factors() {
    MOEC_ASSIGN(const float by,
                members_["rope_type"] == "\"linear\"" ? factor() : Result<float>(1.0F));
    MOEC_ASSIGN(const uint32_t dims, head_dims());
    MOEC_ASSIGN(const uint32_t rotated, integer("rope.dimension_count", dims));
    // The key is untrusted, and the list has an entry per rotated pair.
    if (rotated / 2 > kMaxFactors)
      return refuse(
          fmt::format("{} dims rotate; at most {} are supported", rotated, 2 * kMaxFactors));
    // The divisors include `factor`, which would be an unknown key of this rope type.
    members_.erase("factor");
    const std::vector<float> factors(rotated / 2, by);
    members_["short_factor"] = members_["long_factor"] =
        fmt::format("[{}]", fmt::join(factors, ", "));
    return {};
  }

  Status take_amplitude(float amplitude) {
    set_type(kFrequencyDivisors);
    set("short_mscale", amplitude);
    set("long_mscale", amplitude);
    MOEC_ASSIGN(const uint32_t context, integer("context_length", 0));
    MOEC_ASSIGN(const uint32_t original, integer("rope.scaling.original_context_length", context));
    set("original_max_position_embeddings", original);
    return {};
  }

  const GgufModel& model_;
  const GgufValues& values_;
  const ReadFloats& read_;
  std::map<std::string, std::string> members_;  // of one rotation
  GgufRotation rotation_{.scaled = true};
};

}  // namespace

bool reads_rope_key(const GgufModel& model, std::string_view name) {
  for (const GgufRotation& rotation : model.architecture.rotations)
    if (name == rotation.base || name == rotation.dims || name == rotation.head) return true;
  if (name == kLogMultiplier) return is_latent(model);
  return std::find(kRopeKeys.begin(), kRopeKeys.end(), name) != kRopeKeys.end();
}

Result<std::string> rope_text(const GgufModel& model, const ReadFloats& read) {
  return RopeWriter(model, read).run();
}

}  // namespace moec
