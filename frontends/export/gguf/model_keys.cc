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

using Keys = std::map<std::string, GgufItem>;  // without "ARCH."

// Whether YaRN with llama.cpp's range gives the same frequencies. llama.cpp reads no key for the
// range (gguf_rope.h).
bool has_usual_range(const RopeConfig& rope) {
  RopeConfig usual = rope;
  usual.yarn = YarnRange();
  return inverse_frequencies(rope) == inverse_frequencies(usual);
}

class KeyWriter {
 public:
  KeyWriter(const ModelConfig& model, const GgufArchitecture& architecture, const Family& family)
      : model_(model), architecture_(architecture), family_(family) {}

  Result<Keys> run() {
    MOEC_TRY(check_limits());
    for (const auto& [key, terms] : architecture_.writing.keys) set_whole(key, value_of(terms));
    MOEC_TRY(write_rope());
    // Keys of their own first: the others are products and sums with these.
    for (const auto& [name, item] : architecture_.concepts) MOEC_TRY(write_alone(name, item));
    for (const auto& [name, item] : architecture_.concepts) write_combined(name, item);
    return std::move(keys_);
  }

 private:
  // ---- What llama.cpp takes for granted --------------------------------------------------------

  Status check_limits() const {
    for (const auto& [name, item] : architecture_.concepts) MOEC_TRY(check_fixed(name, item));
    const std::string broken = broken_product(model_, architecture_);
    if (!broken.empty()) return not_in_gguf(architecture_, broken);
    for (const GgufExclusion& exclusion : architecture_.writing.exclusions)
      if (number(exclusion.concept_name) > 0 &&
          std::count(exclusion.layers.begin(), exclusion.layers.end(), std::ssize(model_.layers)))
        return not_in_gguf(architecture_,
                           fmt::format("takes a model of {} layers for one without {}",
                                       model_.layers.size(), exclusion.concept_name));
    return {};
  }

  // What is a list or not known of the model is found when the keys are read back.
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
                         fmt::format("has no {}, this model has {}", name, to_string(value)));
    return not_in_gguf(architecture_, fmt::format("computes with {} {}, this model has {}", name,
                                                  to_string(*item.is), to_string(value)));
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
    keys_.try_emplace(key, static_cast<uint32_t>(value));
  }

  // The key that says a concept by itself; null where there is none.
  static const GgufExpression* alone(const GgufConcept& item) {
    const auto found =
        std::find_if(item.from.begin(), item.from.end(),
                     [](const GgufExpression& e) { return e.op == 0 && e.literal.empty(); });
    return found == item.from.end() ? nullptr : &*found;
  }

  // A concept whose first source is a sum or a product is said by that, where it can be.
  static bool is_combined(const GgufConcept& item) {
    return !item.from.empty() && item.from.front().op != 0 && !is_layer_count(item.from.front());
  }
  // Layers that guess further tokens are left out, so that none are to be taken off.
  static bool is_layer_count(const GgufExpression& from) {
    return from.right == "nextn_predict_layers";
  }

  // Some families have no word for what llama.cpp asks of all of them.
  bool is_said_of_family(const std::string& name, const GgufConcept& item) const {
    return family_.concepts.contains(name) || !item.as.empty();
  }

  Status write_alone(const std::string& name, const GgufConcept& item) {
    const GgufExpression* key = is_combined(item) ? nullptr : alone(item);
    if (!is_said_of_family(name, item)) return {};
    const ConceptValue value = concept_value(model_, name);
    if (key == nullptr || std::holds_alternative<std::monostate>(value)) return {};
    if (!item.names.empty()) return write_named(name, item, key->left, to_string(value));
    const Concept* meant = find_concept(name);
    if (meant != nullptr && meant->type == ConceptType::number)
      keys_.try_emplace(key->left, static_cast<float>(concept_number(value)));
    else if (meant != nullptr && meant->type == ConceptType::boolean)
      keys_.try_emplace(key->left, concept_number(value) != 0);
    else
      set_whole(key->left, std::llround(concept_number(value)));
    return {};
  }

  Status write_named(const std::string& concept_name, const GgufConcept& item,
                     const std::string& key, const std::string& value) {
    for (const auto& [known, name] : item.names)
      if (name.string() != nullptr && *name.string() == value) {
        set_whole(key, known);
        return {};
      }
    return not_in_gguf(architecture_, fmt::format("has no number for the {} {} of this model",
                                                  concept_name, value));
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
    if (!right) return;
    const double left = from.op == '-' ? whole + *right : whole * *right;
    set_whole(from.left, std::llround(left));
  }

  // ---- The rotation ----------------------------------------------------------------------------

  void set_number(const std::string& key, double value) { keys_[key] = static_cast<float>(value); }

  Status write_rope() {
    const RopeConfig& rope = model_.attention.rope;
    const std::vector<RopeScaling>& known = architecture_.writing.scalings;
    if (std::find(known.begin(), known.end(), rope.scaling) == known.end())
      return not_in_gguf(architecture_, fmt::format("has no rotations that are scaled as {}",
                                                    enum_name(rope.scaling)));
    set_number("rope.freq_base", rope.theta);
    set_whole("rope.dimension_count", rope.dims);
    if (!rope_divisors(rope, architecture_).empty()) {
      write_amplitude(rope, 1);  // llama.cpp scales divided frequencies no further
      return {};
    }
    if (rope.scaling != RopeScaling::linear && rope.scaling != RopeScaling::yarn) return {};
    keys_["rope.scaling.type"] = std::string(enum_name(rope.scaling));
    set_number("rope.scaling.factor", rope.factor);
    return rope.scaling == RopeScaling::yarn ? write_yarn(rope) : Status();
  }

  Status write_yarn(const RopeConfig& rope) {
    if (!has_usual_range(rope))
      return not_in_gguf(
          architecture_,
          fmt::format("computes YaRN with beta_fast 32, beta_slow 1 and truncate true, this model "
                      "has {}, {} and {}",
                      rope.yarn.fast, rope.yarn.slow, rope.yarn.truncate));
    set_whole("rope.scaling.original_context_length", std::llround(rope.original_max_positions));
    if (model_.attention.latent)
      set_number("rope.scaling.yarn_log_multiplier", 0.1 * rope.mscale_all_dim.value_or(0));
    else
      write_amplitude(rope, 1 + 0.1 * std::log(std::max(rope.factor, 1.0)));
    return {};
  }

  // The amplitude of cos and sin, as a multiple of what llama.cpp computes without the key.
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

std::vector<float> rope_divisors(const RopeConfig& rope, const GgufArchitecture& architecture) {
  std::vector<float> divisors;
  const std::vector<RopeScaling>& known = architecture.writing.scalings;
  const bool has_tables = std::count(known.begin(), known.end(), RopeScaling::llama3) > 0;
  const bool lacks_keys = rope.scaling == RopeScaling::llama3 ||
                          (rope.scaling == RopeScaling::yarn && !has_usual_range(rope));
  if (!has_tables || !lacks_keys) return divisors;
  RopeConfig plain = rope;
  plain.scaling = RopeScaling::none;
  const std::vector<double> own = inverse_frequencies(plain), scaled = inverse_frequencies(rope);
  for (size_t i = 0; i < own.size(); ++i)
    divisors.push_back(static_cast<float>(own[i] / scaled[i]));
  return divisors;
}

tl::unexpected<Diagnostics> not_in_gguf(const GgufArchitecture& architecture, std::string cause) {
  return fail("gguf.family",
              fmt::format("llama.cpp's architecture {} {}", architecture.name, cause),
              "Export the model for another target: a GGUF file would compute something else.");
}

}  // namespace moec
