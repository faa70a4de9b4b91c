#include "frontends/export/gguf/model_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "frontends/sources/gguf/model_concepts.h"
#include "models/families/family.h"
#include "models/tensors/rope.h"

namespace moec {
namespace {

using Keys = std::map<std::string, GgufItem>;  // names without the prefix "ARCH."

// True if YaRN with llama.cpp's constant range gives the same frequencies. llama.cpp reads no key
// for the range (gguf_rope.h).
bool has_usual_range(const RopeConfig& rope) {
  RopeConfig usual = rope;
  usual.yarn = YarnRange();
  return inverse_frequencies(rope) == inverse_frequencies(usual);
}

// The divisors of one rotation.
std::vector<float> divisors_of(const RopeConfig& rope, const GgufArchitecture& architecture) {
  std::vector<float> divisors;
  const std::vector<RopeScaling>& known = architecture.writing.scalings;
  const auto writes = [&](RopeScaling scaling) {
    return std::count(known.begin(), known.end(), scaling) > 0;
  };
  const bool has_tables = writes(RopeScaling::llama3) || writes(RopeScaling::proportional);
  // llama.cpp requires the tensor in architectures with proportional rotations.
  const bool lacks_keys = rope.scaling == RopeScaling::llama3 ||
                          writes(RopeScaling::proportional) ||
                          (rope.scaling == RopeScaling::yarn && !has_usual_range(rope));
  if (!has_tables || !lacks_keys) return divisors;
  RopeConfig plain = rope;
  // The divisors are relative to the frequencies without any scaling.
  plain.scaling = RopeScaling::none;
  const std::vector<double> own = inverse_frequencies(plain), scaled = inverse_frequencies(rope);
  for (size_t i = 0; i < own.size(); ++i)
    divisors.push_back(scaled[i] == 0 ? kUnrotatedDivisor : static_cast<float>(own[i] / scaled[i]));
  return divisors;
}

class KeyWriter {
 public:
  KeyWriter(const ModelConfig& model, const GgufArchitecture& architecture, const Family& family)
      : model_(model), architecture_(architecture), family_(family) {}

  Result<Keys> run() {
    MOEC_TRY(check_limits());
    // Fixed keys come first, because set_whole() does not replace a key that exists.
    for (const auto& [key, terms] : architecture_.writing.keys) write_terms(key, terms);
    write_layers();
    MOEC_TRY(write_rope());
    // Writes concepts with a separate key first, because the other keys are sums and products with
    // them.
    for (const auto& [name, item] : architecture_.concepts) MOEC_TRY(write_alone(name, item));
    for (const auto& [name, item] : architecture_.concepts) write_combined(name, item);
    return std::move(keys_);
  }

 private:
  // ---- Assumptions of llama.cpp ----------------------------------------------------------------

  Status check_limits() const {
    for (const auto& [name, item] : architecture_.concepts) MOEC_TRY(check_fixed(name, item));
    const std::string broken = broken_product(model_, architecture_);
    if (!broken.empty()) return not_in_gguf(architecture_, broken);
    for (const GgufExclusion& exclusion : architecture_.writing.exclusions)
      if (number(exclusion.concept_name) > 0 &&
          std::count(exclusion.layers.begin(), exclusion.layers.end(), std::ssize(model_.layers)))
        return not_in_gguf(architecture_,
                           fmt::format("assumes that a model of {} layers has no {}",
                                       model_.layers.size(), exclusion.concept_name));
    return {};
  }

  // Checks constants of the architecture against the model. check_round_trip() covers lists, and
  // values that the model does not state.
  Status check_fixed(const std::string& name, const GgufConcept& item) const {
    const ConceptValue value = concept_value(model_, name);
    const auto rule = family_.concepts.find(name);
    const bool is_read = rule != family_.concepts.end() && !rule->second.keys.empty();
    if (!item.is || !is_read || std::holds_alternative<std::monostate>(value)) return {};
    const bool* flag = item.is->boolean();
    const std::string* text = item.is->string();
    const bool known = flag || text || item.is->number();
    const bool same = flag   ? (concept_number(value) != 0) == *flag
                      : text ? to_string(value) == *text
                             : concept_number(value) == item.is->number();
    if (!known && !item.is->is_null()) return {};
    if (known && same) return {};
    if (item.is->is_null())
      return not_in_gguf(architecture_,
                         fmt::format("has no {}, but this model has {}", name, to_string(value)));
    return not_in_gguf(architecture_, fmt::format("uses {} = {}, but this model has {}", name,
                                                  to_string(*item.is), to_string(value)));
  }

  // Writes a sum, or the single concept's number or list.
  void write_terms(const std::string& key, const GgufTerms& terms) {
    const ConceptValue only =
        terms.concepts.size() == 1 ? concept_value(model_, terms.concepts.front()) : ConceptValue();
    if (const auto* number = std::get_if<double>(&only)) return set_number(key, *number);
    if (const auto* list = std::get_if<std::vector<int64_t>>(&only)) return set_list(key, *list);
    set_whole(key, value_of(terms));
  }

  void set_list(const std::string& key, const std::vector<int64_t>& list) {
    keys_.try_emplace(key, std::vector<uint32_t>(list.begin(), list.end()));
  }

  // ---- Keys of concepts ------------------------------------------------------------------------

  double number(const std::string& name) const {
    return concept_number(concept_value(model_, name));
  }

  int64_t value_of(const GgufTerms& terms) const {
    int64_t sum = terms.number.value_or(0);
    for (const std::string& name : terms.concepts) sum += std::llround(number(name));
    return sum;
  }

  void set_whole(const std::string& key, int64_t value) {
    // The first writer of a key wins, so several concepts may share one.
    keys_.try_emplace(key, static_cast<uint32_t>(value));
  }

  // Returns the key that alone expresses a concept; null if there is none.
  static const GgufExpression* alone(const GgufConcept& item) {
    const auto found =
        std::find_if(item.from.begin(), item.from.end(),
                     [](const GgufExpression& e) { return e.op == 0 && e.literal.empty(); });
    return found == item.from.end() ? nullptr : &*found;
  }

  // True if the concept's first source is a sum or a product, which write_combined() inverts.
  static bool is_combined(const GgufConcept& item) {
    return !item.from.empty() && item.from.front().op != 0 && !is_layer_count(item.from.front());
  }
  // True if the expression is the number of layers minus the multi-token prediction layers. The
  // latter are not exported, so nothing must be subtracted.
  static bool is_layer_count(const GgufExpression& from) {
    return from.right == "nextn_predict_layers";
  }

  // True if the family or the descriptor (`as`) states the concept. llama.cpp requires some keys
  // that not every family has.
  bool is_said_of_family(const std::string& name, const GgufConcept& item) const {
    return family_.concepts.contains(name) || !item.as.empty();
  }

  Status write_alone(const std::string& name, const GgufConcept& item) {
    const GgufExpression* key = is_combined(item) ? nullptr : alone(item);
    if (!is_said_of_family(name, item)) return {};
    // A list of names is written as the number of leading layers with the first name.
    const ConceptValue value =
        concept_value(model_, item.listed.empty() ? name : "first_moe_layer");
    if (key == nullptr || std::holds_alternative<std::monostate>(value)) return {};
    if (!item.names.empty()) return write_named(name, item, key->left, to_string(value));
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      write_list(item, key->left, *list);
      return {};
    }
    const Concept* meant = find_concept(name);
    if (meant != nullptr && meant->type == ConceptType::number)
      keys_.try_emplace(key->left, static_cast<float>(concept_number(value)));
    else if (meant != nullptr && meant->type == ConceptType::boolean)
      keys_.try_emplace(key->left, concept_number(value) != 0);
    else
      set_whole(key->left, std::llround(concept_number(value)));
    return {};
  }

  // Products are written as their flags; the other factor has a separate key.
  void write_list(const GgufConcept& item, const std::string& key,
                  const std::vector<int64_t>& list) {
    if (item.times.empty()) return set_list(key, list);
    GgufBytesValue flags{GgufType::boolean, true, list.size(), {}};
    for (const int64_t flag : list) flags.bytes.push_back(flag != 0 ? '\1' : '\0');
    keys_.try_emplace(key, std::move(flags));
  }

  Status write_named(const std::string& concept_name, const GgufConcept& item,
                     const std::string& key, const std::string& value) {
    for (const auto& [known, name] : item.names)
      if (name.string() != nullptr && *name.string() == value) {
        if (has_named_flags(item))
          keys_.try_emplace(key, known != 0);
        else
          set_whole(key, known);
        return {};
      }
    return not_in_gguf(architecture_,
                       fmt::format("has no code for the {} {} of this model", concept_name, value));
  }

  std::optional<uint32_t> whole_key(const std::string& key) const {
    const auto found = keys_.find(key);
    const uint32_t* value = found == keys_.end() ? nullptr : std::get_if<uint32_t>(&found->second);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }

  void write_combined(const std::string& name, const GgufConcept& item) {
    const ConceptValue value = concept_value(model_, name);
    if (!is_said_of_family(name, item)) return;
    if (!is_combined(item) || std::holds_alternative<std::monostate>(value)) return;
    const GgufExpression& from = item.from.front();
    const std::optional<uint32_t> right = whole_key(from.right);
    const double whole = concept_number(value);
    // Without the right key, the left one has no value. check_round_trip() reports what is missing.
    if (!right) return;
    // Inverts the reader: value = left − right, or value = left / right.
    const double left = from.op == '-' ? whole + *right : whole * *right;
    set_whole(from.left, std::llround(left));
  }

  // ---- Lists with one entry per layer ----------------------------------------------------------

  void write_layers() {
    const GgufLayers& layers = architecture_.layers;
    if (layers.kinds.empty()) return;
    for (const auto& [key, value] : layers.kinds.front().keys)
      keys_[key] = value.is_flag ? flags_of_layers(key) : numbers_of_layers(key);
  }

  // The value of a key in a layer. check_round_trip() refuses layers of other kinds.
  int64_t layer_value(const std::string& key, const LayerConfig& layer) const {
    const std::vector<GgufLayerKind>& kinds = architecture_.layers.kinds;
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const GgufLayerKind& each) {
      return each.name == layer_kind(layer);
    });
    if (kind == kinds.end()) return 0;
    const auto found = kind->keys.find(key);
    if (found == kind->keys.end()) return 0;
    const GgufLayerValue& value = found->second;
    return std::llround(value.concept_name.empty() ? value.number : number(value.concept_name));
  }

  GgufItem numbers_of_layers(const std::string& key) const {
    std::vector<uint32_t> numbers;
    for (const LayerConfig& layer : model_.layers)
      numbers.push_back(static_cast<uint32_t>(layer_value(key, layer)));
    return numbers;
  }

  GgufItem flags_of_layers(const std::string& key) const {
    GgufBytesValue flags{GgufType::boolean, true, model_.layers.size(), {}};
    for (const LayerConfig& layer : model_.layers)
      flags.bytes.push_back(layer_value(key, layer) != 0 ? '\1' : '\0');
    return flags;
  }

  // ---- Rotary embeddings -----------------------------------------------------------------------

  void set_number(const std::string& key, double value) { keys_[key] = static_cast<float>(value); }

  // The rotation of the first layer of a kind; null if there is none.
  const RopeConfig* rotation_of(std::string_view kind) const {
    for (const LayerConfig& layer : model_.layers)
      if (layer_kind(layer) == kind) return &model_.attention_of(layer).rope;
    return nullptr;
  }

  Status write_rope() {
    if (architecture_.rotations.empty()) return write_rotation(model_.attention.rope);
    for (const GgufRotation& rotation : architecture_.rotations) {
      const RopeConfig* rope = rotation_of(rotation.kind);
      if (rope == nullptr) continue;
      keys_.try_emplace(rotation.base, static_cast<float>(rope->theta));
      set_whole(rotation.dims, rope->dims);
      if (rotation.scaled) MOEC_TRY(write_scaling(*rope));
    }
    return {};
  }

  Status write_rotation(const RopeConfig& rope) {
    // Without a rotation, llama.cpp reads the number of dims only for their place in a head.
    const auto& latent = model_.attention.latent;
    const int64_t shared = latent ? latent->shared_dims : model_.attention.head_dim;
    set_whole("rope.dimension_count", rope.style == RopeStyle::none ? shared : rope.dims);
    if (rope.style == RopeStyle::none) return {};
    set_number("rope.freq_base", rope.theta);
    return write_scaling(rope);
  }

  Status write_scaling(const RopeConfig& rope) {
    const std::vector<RopeScaling>& known = architecture_.writing.scalings;
    if (std::find(known.begin(), known.end(), rope.scaling) == known.end())
      return not_in_gguf(architecture_,
                         fmt::format("has no rotary scaling of type {}", enum_name(rope.scaling)));
    // The tensor of divisors already expresses the scaling, so no scaling key is written.
    if (!divisors_of(rope, architecture_).empty()) {
      write_amplitude(rope, 1);  // llama.cpp applies no other scaling to divided frequencies
      return {};
    }
    switch (rope.scaling) {
      case RopeScaling::none:
      case RopeScaling::llama3:
      case RopeScaling::longrope:
      case RopeScaling::proportional:
        return {};  // needs no key, or is expressed as divisors
      case RopeScaling::linear:
      case RopeScaling::yarn:
        break;
    }
    keys_["rope.scaling.type"] = std::string(enum_name(rope.scaling));
    set_number("rope.scaling.factor", rope.factor);
    return rope.scaling == RopeScaling::yarn ? write_yarn(rope) : Status();
  }

  Status write_yarn(const RopeConfig& rope) {
    if (!has_usual_range(rope))
      return not_in_gguf(
          architecture_,
          fmt::format("computes YaRN with beta_fast 32, beta_slow 1 and truncate true, but this "
                      "model has {}, {} and {}",
                      rope.yarn.fast, rope.yarn.slow, rope.yarn.truncate));
    set_whole("rope.scaling.original_context_length", std::llround(rope.original_max_positions));
    if (model_.attention.latent)
      set_number("rope.scaling.yarn_log_multiplier", 0.1 * rope.mscale_all_dim.value_or(0));
    else
      // Without the key, llama.cpp uses the amplitude 1 + 0.1 · ln(factor) for YaRN.
      write_amplitude(rope, 1 + 0.1 * std::log(std::max(rope.factor, 1.0)));
    return {};
  }

  // Writes the amplitude of cos and sin, relative to the amplitude that llama.cpp computes without
  // the key.
  void write_amplitude(const RopeConfig& rope, double usual) {
    if (rope_amplitude(rope) != usual)
      set_number("rope.scaling.attn_factor", rope_amplitude(rope) / usual);
  }

  const ModelConfig& model_;
  const GgufArchitecture& architecture_;
  const Family& family_;
  Keys keys_;
};

}  // namespace

Result<std::vector<GgufEntry>> model_keys(const ModelConfig& model,
                                          const GgufArchitecture& architecture) {
  MOEC_ASSIGN(const Family* family, find_family(model.family));
  MOEC_ASSIGN(Keys keys, KeyWriter(model, architecture, *family).run());
  std::vector<GgufEntry> entries = {{"general.architecture", architecture.name}};
  for (auto& [key, value] : keys)
    entries.push_back({fmt::format("{}.{}", architecture.name, key), std::move(value)});
  return entries;
}

std::vector<float> rope_divisors(const ModelConfig& model, const GgufArchitecture& architecture) {
  if (architecture.rotations.empty()) return divisors_of(model.attention.rope, architecture);
  for (const GgufRotation& rotation : architecture.rotations)
    for (const LayerConfig& layer : model.layers)
      if (rotation.scaled && layer_kind(layer) == rotation.kind)
        return divisors_of(model.attention_of(layer).rope, architecture);
  return {};
}

tl::unexpected<Diagnostics> not_in_gguf(const GgufArchitecture& architecture, std::string cause) {
  return fail("gguf.family",
              fmt::format("llama.cpp's architecture {} {}", architecture.name, cause),
              "export the model for another target");
}

}  // namespace moec
