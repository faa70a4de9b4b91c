#include "frontends/cli/print/print_weight_forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "frontends/cli/print/findings.h"
#include "frontends/cli/print/say.h"

namespace moec {
namespace {

std::vector<std::string_view> projections_of(const TargetWeightForms& forms) {
  std::vector<std::string_view> names;
  for (const ProjectionForm projection : forms.projections) names.push_back(enum_name(projection));
  return names;
}

std::string describe_weight_forms(const ExplainedForms& entry) {
  const TargetWeightForms& forms = entry.forms;
  std::string text =
      fmt::format("{} ({}): {}: {}\n", fmt::join(forms.forms, ", "), entry.target,
                  forms.severity == Severity::error ? "refused" : "taken", forms.reason);
  if (!forms.projections.empty())
    text += fmt::format("  with: --form {}\n", fmt::join(projections_of(forms), ", "));
  return text + fmt::format("  confidence: {}\n  source: {}\n", forms.confidence, forms.source);
}

}  // namespace

void print_weight_forms(const std::vector<ExplainedForms>& entries) {
  for (const ExplainedForms& entry : entries) print_out("{}", describe_weight_forms(entry));
}

void print_weight_forms_json(const std::vector<ExplainedForms>& entries) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [target, forms] : entries)
    list.push_back({{"target", target},
                    {"forms", forms.forms},
                    {"projections", projections_of(forms)},
                    {"taken", forms.severity != Severity::error},
                    {"severity", severity_name(forms.severity)},
                    {"reason", forms.reason},
                    {"confidence", forms.confidence},
                    {"source", forms.source}});
  print_json(true, {{"weights", list}});
}

}  // namespace moec
