#include "frontends/compile/auto_bits.h"

#include <fmt/format.h>

#include "ir/target/weight_support.h"
#include "models/plan/choose_bits.h"

namespace moec {
namespace {

// Returns `four_bits` with its bit width replaced by `bits` and its groups or blocks unchanged. 8
// bits become plain int8, which every target supports.
WeightForm form_of_bits(int64_t bits, WeightForm four_bits) {
  if (bits == 8) return AffineForm{};
  if (auto* palette = std::get_if<PaletteForm>(&four_bits)) palette->bits = bits;
  if (auto* affine = std::get_if<AffineForm>(&four_bits)) affine->bits = bits;
  return four_bits;
}

// Returns the candidate forms that the target supports, ascending by bits. BitsItem requires this
// order, and choose_forms() reads the range from both ends. 5 and 7 bits are missing, because
// palettes do not have these widths.
std::vector<WeightForm> forms_of(const Target& target, const WeightRule& rule) {
  std::vector<WeightForm> forms;
  for (const int64_t bits : {2, 3, 4, 6, 8})
    if (const WeightForm form = form_of_bits(bits, rule.form);
        takes_weight_form(target, form, target.projection))
      forms.push_back(form);
  return forms;
}

// Collects the tensors of one rule auto:BITS and chooses their weight forms together.
class RuleChoice {
 public:
  RuleChoice(const WeightPolicy& policy, const WeightRule& rule, std::vector<WeightForm> forms)
      : policy_(policy), rule_(rule), forms_(std::move(forms)) {}

  void add(const LayerSensitivity& layer) {
    // Another item of the policy may take precedence over this one in some layers.
    if (policy_.rule_of(WeightGroup::experts, layer.layer) != &rule_) return;
    for (const TensorErrors& tensor : layer.tensors) {
      BitsItem item{tensor.elements, {}};
      for (const WeightForm& form : forms_)
        item.choices.push_back({code_bits(form), expected_kl(layer, tensor, code_bits(form))});
      items_.push_back(std::move(item));
      tensors_.push_back({layer.layer, tensor.expert, tensor.role});
    }
  }

  // The choice is made over all added tensors at once, so the average holds for the whole rule, not
  // per layer.
  void choose(std::map<RoleTensor, WeightForm>& chosen) const {
    const std::vector<int64_t> bits = choose_bits(items_, *rule_.bits);
    for (size_t i = 0; i < bits.size(); ++i)
      for (const WeightForm& form : forms_)
        if (code_bits(form) == bits[i]) chosen[tensors_[i]] = form;
  }

 private:
  const WeightPolicy& policy_;
  const WeightRule& rule_;
  std::vector<WeightForm> forms_;
  std::vector<BitsItem> items_;
  std::vector<RoleTensor> tensors_;
};

}  // namespace

int64_t code_bits(const WeightForm& form) {
  if (const auto* affine = std::get_if<AffineForm>(&form)) return affine->bits;
  const auto* palette = std::get_if<PaletteForm>(&form);
  return palette ? palette->bits : 0;
}

Status choose_forms(const Target& target, const Sensitivity& sensitivity, WeightPolicy& policy) {
  std::map<RoleTensor, WeightForm> chosen;
  for (const WeightRule& rule : policy.rules) {
    if (!rule.bits) continue;
    const std::vector<WeightForm> forms = forms_of(target, rule);
    if (forms.empty())
      return fail("weights.auto",
                  fmt::format("--weights auto:{}: target {} supports none of the candidate weight "
                              "forms with --form {}",
                              *rule.bits, target.name, enum_name(target.projection)),
                  "name a weight form, such as experts=int8");
    // Outside this range, every tensor would get the same width, and the average would miss the
    // request.
    const int64_t fewest = code_bits(forms.front()), most = code_bits(forms.back());
    if (*rule.bits < static_cast<double>(fewest) || *rule.bits > static_cast<double>(most))
      return fail("weights.auto",
                  fmt::format("--weights auto:{}: target {} supports {} to {} bits for experts",
                              *rule.bits, target.name, fewest, most),
                  "use a number of bits in this range");
    RuleChoice choice(policy, rule, forms);
    for (const LayerSensitivity& layer : sensitivity.layers) choice.add(layer);
    choice.choose(chosen);
  }
  // Assigned only when every rule succeeded, so a failure leaves the policy unchanged.
  policy.chosen = std::move(chosen);
  return {};
}

Status choose_forms(const Target& target, const std::string& calibration, WeightPolicy& policy) {
  if (!policy.chooses_bits()) return {};
  if (calibration.empty())
    return fail("weights.auto",
                "--weights auto:BITS needs measured sensitivities, but --calibration is missing",
                "run moec calibrate CKPT --text FILE --out STATS --sensitivity, then pass "
                "--calibration STATS");
  MOEC_ASSIGN(const Sensitivity sensitivity, read_sensitivity(calibration));
  return choose_forms(target, sensitivity, policy);
}

}  // namespace moec
