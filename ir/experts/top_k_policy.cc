#include "ir/experts/top_k_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kPolicyShape =
    R"(give {"battery": [{"below": 0.2, "form": "1"}], "categories": [{"category": …, "form": …}], )"
    R"("confidence": 0.9}, of which each may be absent)";

std::string names_of(const std::vector<TopKForm>& forms) {
  std::vector<std::string> names;
  for (const TopKForm& form : forms) names.push_back(form.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

class PolicyReader {
 public:
  PolicyReader(const std::vector<TopKForm>& forms, const ExpertGrid& grid, const std::string& file)
      : forms_(forms), grid_(grid), file_(file) {}

  Result<TopKPolicy> read(JsonFields fields) {
    if (fields.has("battery"))
      MOEC_TRY(fields.each("battery", [&](JsonFields& rule) { return read_battery(rule); }));
    if (fields.has("categories"))
      MOEC_TRY(fields.each("categories", [&](JsonFields& rule) { return read_category(rule); }));
    if (fields.has("confidence")) MOEC_TRY(read_confidence(fields));
    MOEC_TRY(fields.finish());
    std::sort(policy_.battery.begin(), policy_.battery.end(),
              [](const auto& a, const auto& b) { return a.below < b.below; });
    return std::move(policy_);
  }

 private:
  Status read_form(JsonFields& rule, std::string& form) {
    MOEC_TRY(rule.text("form", form));
    MOEC_ASSIGN(const size_t found, find_form(form, forms_, grid_, file_));
    form = forms_[found].name;
    return {};
  }

  Status read_battery(JsonFields& fields) {
    BatteryRule rule;
    MOEC_TRY(fields.number("below", rule.below));
    if (!(rule.below > 0 && rule.below <= 1))
      return fields.bad("below",
                        fmt::format("is {}, must be a charge above 0 and up to 1", rule.below));
    for (const BatteryRule& other : policy_.battery)
      if (other.below == rule.below)
        return fields.bad("below", fmt::format("is {}, as that of another rule", rule.below));
    MOEC_TRY(read_form(fields, rule.form));
    policy_.battery.push_back(std::move(rule));
    return fields.finish();
  }

  Status read_category(JsonFields& fields) {
    CategoryRule rule;
    MOEC_TRY(fields.text("category", rule.category));
    if (rule.category.empty()) return fields.bad("category", "must not be empty");
    if (form_for_category(policy_.categories, rule.category))
      return fields.bad("category", fmt::format("is '{}', as that of another rule", rule.category));
    MOEC_TRY(read_form(fields, rule.form));
    policy_.categories.push_back(std::move(rule));
    return fields.finish();
  }

  Status read_confidence(JsonFields& fields) {
    double threshold = 0;
    MOEC_TRY(fields.number("confidence", threshold));
    if (!(threshold > 0 && threshold <= 1))
      return fields.bad("confidence",
                        fmt::format("is {}, must be a share above 0 and up to 1", threshold));
    if (forms_.size() < 2)
      return fail("policy.confidence",
                  fmt::format("{}: there is one form, {}, and so nothing to choose by confidence",
                              file_, forms_.front().name),
                  "give several forms, as --top-k 1,2");
    policy_.confidence = threshold;
    return {};
  }

  const std::vector<TopKForm>& forms_;
  const ExpertGrid& grid_;
  const std::string& file_;
  TopKPolicy policy_;
};

}  // namespace

Result<size_t> find_form(std::string_view text, const std::vector<TopKForm>& forms,
                         const ExpertGrid& grid, const std::string& what) {
  MOEC_ASSIGN(const std::vector<TopKForm> wanted, parse_top_k_forms(text, grid, what));
  const auto found =
      wanted.size() == 1 ? std::find(forms.begin(), forms.end(), wanted.front()) : forms.end();
  if (found != forms.end()) return static_cast<size_t>(found - forms.begin());
  return fail("policy.form", fmt::format("{}: '{}' is none of the forms of top-k", what, text),
              fmt::format("the forms are {}", names_of(forms)));
}

Result<TopKPolicy> read_top_k_policy(const std::string& path, const std::vector<TopKForm>& forms,
                                     const ExpertGrid& grid) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "policy.file"));
  const JsonReport report(text, path, JsonCodes::by_prefix("policy", kPolicyShape));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return PolicyReader(forms, grid, path).read(std::move(fields));
}

std::string form_for_battery(const std::vector<BatteryRule>& rules, double charge) {
  for (const BatteryRule& rule : rules)
    if (charge < rule.below) return rule.form;
  return {};
}

const std::string* form_for_category(const std::vector<CategoryRule>& rules,
                                     std::string_view category) {
  for (const CategoryRule& rule : rules)
    if (rule.category == category) return &rule.form;
  return nullptr;
}

}  // namespace moec
