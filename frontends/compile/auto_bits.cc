#include "frontends/compile/auto_bits.h"

#include <fmt/format.h>

#include "ir/target/weight_support.h"
#include "models/plan/choose_bits.h"

namespace moec {
namespace {

// A form of so many bits in the manner of the target's form of four; int8 for 8, which every target
// has.
WeightForm form_of_bits(int64_t bits, WeightForm four_bits) {
  if (bits == 8) return AffineForm{};
  if (auto* palette = std::get_if<PaletteForm>(&four_bits)) palette->bits = bits;
  if (auto* affine = std::get_if<AffineForm>(&four_bits)) affine->bits = bits;
  return four_bits;
}

std::vector<WeightForm> forms_of(const Target& target, const WeightRule& rule) {
  std::vector<WeightForm> forms;
  for (const int64_t bits : {2, 3, 4, 6, 8})
    if (const WeightForm form = form_of_bits(bits, rule.form);
        takes_weight_form(target, form, target.projection))
      forms.push_back(form);
  return forms;
}

// Fills in the forms of the tensors whose bits one rule chooses.
class RuleChoice {
 public:
  RuleChoice(const WeightPolicy& policy, const WeightRule& rule, std::vector<WeightForm> forms)
      : policy_(policy), rule_(rule), forms_(std::move(forms)) {}

  void add(const LayerSensitivity& layer) {
    if (policy_.rule_of(WeightGroup::experts, layer.layer) != &rule_) return;
    for (const TensorErrors& tensor : layer.tensors) {
      BitsItem item{tensor.elements, {}};
      for (const WeightForm& form : forms_)
        item.choices.push_back({code_bits(form), expected_kl(layer, tensor, code_bits(form))});
      items_.push_back(std::move(item));
      tensors_.push_back({layer.layer, tensor.expert, tensor.role});
    }
  }

  void choose(std::map<ExpertTensor, WeightForm>& chosen) const {
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
  std::vector<ExpertTensor> tensors_;
};

}  // namespace

int64_t code_bits(const WeightForm& form) {
  if (const auto* affine = std::get_if<AffineForm>(&form)) return affine->bits;
  const auto* palette = std::get_if<PaletteForm>(&form);
  return palette ? palette->bits : 0;
}

Status choose_forms(const Target& target, const Sensitivity& sensitivity, WeightPolicy& policy) {
  std::map<ExpertTensor, WeightForm> chosen;
  for (const WeightRule& rule : policy.rules) {
    if (!rule.bits) continue;
    const std::vector<WeightForm> forms = forms_of(target, rule);
    if (forms.empty())
      return fail("weights.auto",
                  fmt::format("--weights auto:{}: target {} has none of the forms to choose among "
                              "for --form {}",
                              *rule.bits, target.name, enum_name(target.projection)),
                  "name the forms, such as experts=int8");
    const int64_t fewest = code_bits(forms.front()), most = code_bits(forms.back());
    if (*rule.bits < static_cast<double>(fewest) || *rule.bits > static_cast<double>(most))
      return fail("weights.auto",
                  fmt::format("--weights auto:{}: target {} has {} to {} bits for experts",
                              *rule.bits, target.name, fewest, most),
                  "give a number of bits within these");
    RuleChoice choice(policy, rule, forms);
    for (const LayerSensitivity& layer : sensitivity.layers) choice.add(layer);
    choice.choose(chosen);
  }
  policy.chosen = std::move(chosen);
  return {};
}

Status choose_forms(const Target& target, const std::string& calibration, WeightPolicy& policy) {
  if (!policy.chooses_bits()) return {};
  if (calibration.empty())
    return fail(
        "weights.auto",
        "--weights auto:BITS chooses bits by what a calibration measured, and there is none",
        "run moec calibrate CKPT --text FILE --out STATS --sensitivity, then give "
        "--calibration STATS");
  MOEC_ASSIGN(const Sensitivity sensitivity, read_sensitivity(calibration));
  return choose_forms(target, sensitivity, policy);
}

}  // namespace moec
