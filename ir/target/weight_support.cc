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
  // `reason` explains the target's default projection, not the other one.
  const std::string reason =
      entry ? fmt::format(": {} ({}: {})", entry->reason, entry->confidence, entry->source) : "";
  const std::string elsewhere =
      takes_weight_form(target, form, other(own))
          ? fmt::format("; {} needs --form {}", to_string(form), enum_name(other(own)))
          : "";
  return fail(
      "weights.form",
      fmt::format("target {} does not support weights as {} with --form {}{}", target.name,
                  to_string(form), enum_name(own), reason),
      fmt::format("choose one of {}{}", fmt::join(taken_forms(target, own), ", "), elsewhere));
}

// Returns a reason why the codes cannot be copied; empty if they can.
std::string_view about_codes(const StoredWeights& stored) {
  switch (stored.coding) {
    case WeightCoding::plain:
      return "stores plain weights, not codes";
    case WeightCoding::fp8_blocks:
      return "stores 8-bit floats with one factor per block, which no weight form supports";
    case WeightCoding::mxfp4:
      return "stores 4-bit floats with a power of two per 32 floats, which no weight form "
             "supports: "
             "Core ML tables have no scales, and onnxruntime requires integers";
    case WeightCoding::nvfp4:
      return "stores 4-bit floats with an 8-bit float per 16 floats, which no weight form supports";
    case WeightCoding::mlx:
      return "stores integers with an addend per group, which no weight form supports";
    case WeightCoding::nf4:
    case WeightCoding::fp4:
      return "stores indices of a table in blocks that may cross rows, which no weight form "
             "supports";
    case WeightCoding::int8_rows:
      return "stores factors of which each value is a fraction of 127, which no weight form "
             "supports";
    case WeightCoding::int_groups:
    case WeightCoding::gptq:
    case WeightCoding::gptq_v2:
    case WeightCoding::awq:
      return stored.indexed ? "stores integers whose columns have groups in any order, which no "
                              "weight form supports"
                            : "";
    case WeightCoding::gguf_blocks:
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
  // The first entry applies, so a specific entry can precede a general one.
  for (const TargetWeightForms& entry : target.weights)
    if (holds_for(entry, projection) &&
        std::any_of(entry.forms.begin(), entry.forms.end(),
                    [&](const std::string& text) { return names_weight_form(text, form); }))
      return &entry;
  return nullptr;
}

bool takes_weight_form(const Target& target, const WeightForm& form, ProjectionForm projection) {
  // Float weights need no entry, because every target supports them.
  if (is_float(form)) return true;
  const TargetWeightForms* entry = find_weight_form(target, form, projection);
  return entry && entry->severity != Severity::error;
}

ProjectionForm projection_for(const Target& target, const WeightPolicy& policy) {
  const ProjectionForm own = target.projection;
  for (const WeightForm& form : policy.forms())
    // The target prefers `own`, so the other projection is used only for a form that needs it.
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
  const std::string_view reason = about_codes(stored);
  if (reason.empty() || std::none_of(forms.begin(), forms.end(), is_copy)) return {};
  std::vector<std::string> taken = taken_forms(target, target.projection);
  // The message must not suggest `copy`, which was refused.
  std::erase(taken, to_string(WeightForm{CopyForm{}}));
  return fail("weights.copy", fmt::format("--weights copy: the checkpoint {}", reason),
              fmt::format("omit copy for the decoded values, or choose a form of target {}: {}",
                          target.name, fmt::join(taken, ", ")));
}

}  // namespace moec
