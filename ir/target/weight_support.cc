#include "ir/target/weight_support.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace moec {
namespace {

constexpr std::string_view kAnyGroup = ":g*";

bool holds_for(const TargetWeightForms& entry, ProjectionForm projection) {
  return entry.projections.empty() || std::find(entry.projections.begin(), entry.projections.end(),
                                                projection) != entry.projections.end();
}

ProjectionForm other(ProjectionForm projection) {
  return projection == ProjectionForm::conv ? ProjectionForm::matmul : ProjectionForm::conv;
}

std::vector<std::string> taken_forms(const Target& target, ProjectionForm projection) {
  std::vector<std::string> taken{"float"};
  for (const TargetWeightForms& entry : target.weights)
    if (entry.severity != Severity::error && holds_for(entry, projection))
      taken.insert(taken.end(), entry.forms.begin(), entry.forms.end());
  return taken;
}

tl::unexpected<Diagnostics> refuse(const Target& target, const WeightForm& form) {
  const ProjectionForm own = target.projection;
  const TargetWeightForms* entry = find_weight_form(target, form, own);
  const std::string reason =
      entry ? fmt::format(": {} ({}: {})", entry->reason, entry->confidence, entry->source) : "";
  const std::string elsewhere =
      takes_weight_form(target, form, other(own))
          ? fmt::format("; {} it has with --form {}", to_string(form), enum_name(other(own)))
          : "";
  return fail("weights.form",
              fmt::format("target {} does not take weights as {} with --form {}{}", target.name,
                          to_string(form), enum_name(own), reason),
              fmt::format("it has {}{}", fmt::join(taken_forms(target, own), ", "), elsewhere));
}

std::string_view about_codes(WeightCoding coding) {
  switch (coding) {
    case WeightCoding::plain:
      return "stores its weights as numbers, not as codes";
    case WeightCoding::fp8_blocks:
      return "stores floats of 8 bits with a factor for each block, for which there is no form";
    case WeightCoding::mxfp4:
      return "stores floats of 4 bits with a power of two for each 32 of them, for which there is "
             "no "
             "form: Core ML has tables without scales, onnxruntime integers";
    case WeightCoding::int4_groups:
      return {};
  }
  return {};
}

}  // namespace

bool names_weight_form(std::string_view entry, const WeightForm& form) {
  const std::string text = to_string(form);
  if (!entry.ends_with(kAnyGroup)) return entry == text;
  const auto* palette = std::get_if<PaletteForm>(&form);
  return palette && palette->rows > 0 &&
         text.starts_with(entry.substr(0, entry.size() - 1));  // up to "int4-lut:g"
}

const TargetWeightForms* find_weight_form(const Target& target, const WeightForm& form,
                                          ProjectionForm projection) {
  for (const TargetWeightForms& entry : target.weights)
    if (holds_for(entry, projection) &&
        std::any_of(entry.forms.begin(), entry.forms.end(),
                    [&](const std::string& text) { return names_weight_form(text, form); }))
      return &entry;
  return nullptr;
}

bool takes_weight_form(const Target& target, const WeightForm& form, ProjectionForm projection) {
  if (is_float(form)) return true;
  const TargetWeightForms* entry = find_weight_form(target, form, projection);
  return entry && entry->severity != Severity::error;
}

ProjectionForm projection_for(const Target& target, const WeightPolicy& policy) {
  const ProjectionForm own = target.projection;
  for (const WeightForm& form : policy.forms())
    if (!takes_weight_form(target, form, own) && takes_weight_form(target, form, other(own)))
      return other(own);
  return own;
}

Status check_weight_forms(const Target& target, const WeightPolicy& policy) {
  for (const WeightForm& form : policy.forms())
    if (!takes_weight_form(target, form, target.projection)) return refuse(target, form);
  return {};
}

Status check_copied_codes(const Target& target, const WeightPolicy& policy,
                          const StoredWeights& stored) {
  const std::vector<WeightForm> forms = policy.forms();
  const std::string_view reason = about_codes(stored.coding);
  if (reason.empty() || std::none_of(forms.begin(), forms.end(), is_copy)) return {};
  std::vector<std::string> taken = taken_forms(target, target.projection);
  std::erase(taken, to_string(WeightForm{CopyForm{}}));
  return fail("weights.copy", fmt::format("--weights copy: the checkpoint {}", reason),
              fmt::format("leave copy out for the decoded values, or name a form: target {} has {}",
                          target.name, fmt::join(taken, ", ")));
}

}  // namespace moec
