#include "ir/experts/top_k_policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ir/base/json_fields.h"
#include "ir/base/regular_file.h"

namespace moec {
namespace {

constexpr const char* kPolicyShape =
    R"(write {"battery": [{"below": 0.2, "form": "1"}], "categories": [{"category": …, "form": …}])"
    R"(, "confidence": 0.9}; each member is optional)";

std::string names_of(const std::vector<TopKVariant>& forms) {
  std::vector<std::string> names;
  for (const TopKVariant& form : forms) names.push_back(form.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

class PolicyReader {
 public:
  // `forms` are the variants of the export, from which a policy chooses.
  PolicyReader(const std::vector<TopKVariant>& forms, const ExpertGrid& grid,
               const std::string& file)
      : forms_(forms), grid_(grid), file_(file) {}

  Result<TopKPolicy> read(JsonFields fields) {
    if (fields.has("battery"))
      MOEC_TRY(fields.each("battery", [&](JsonFields& rule) { return read_battery(rule); }));
    if (fields.has("categories"))
      MOEC_TRY(fields.each("categories", [&](JsonFields& rule) { return read_category(rule); }));
    if (fields.has("confidence")) MOEC_TRY(read_confidence(fields));
    MOEC_TRY(fields.finish());
    // Ascending thresholds: form_for_battery() applies the first one above the charge.
    std::sort(policy_.battery.begin(), policy_.battery.end(),
              [](const auto& a, const auto& b) { return a.below < b.below; });
    return std::move(policy_);
  }

 private:
  Status read_form(JsonFields& rule, std::string& form) {
    MOEC_TRY(rule.text("form", form));
    MOEC_ASSIGN(const size_t found, find_form(form, forms_, grid_, file_));
    // Stores the canonical name, because the rule can spell the variant differently.
    form = forms_[found].name;
    return {};
  }

  Status read_battery(JsonFields& fields) {
    BatteryRule rule;
    MOEC_TRY(fields.number("below", rule.below));
    // Negated, so that NaN is refused, too.
    if (!(rule.below > 0 && rule.below <= 1))
      return fields.bad("below",
                        fmt::format("is {}, must be a charge above 0 and at most 1", rule.below));
    for (const BatteryRule& other : policy_.battery)
      // The comparison is exact, because only equal thresholds contradict each other.
      if (other.below == rule.below)
        return fields.bad("below", fmt::format("is {}, which another rule has", rule.below));
    MOEC_TRY(read_form(fields, rule.form));
    policy_.battery.push_back(std::move(rule));
    return fields.finish();
  }

  Status read_category(JsonFields& fields) {
    CategoryRule rule;
    MOEC_TRY(fields.text("category", rule.category));
    if (rule.category.empty()) return fields.bad("category", "must not be empty");
    // form_for_category() uses the first rule of a category, so a second one would never apply.
    if (form_for_category(policy_.categories, rule.category))
      return fields.bad("category", fmt::format("is '{}', which another rule has", rule.category));
    MOEC_TRY(read_form(fields, rule.form));
    policy_.categories.push_back(std::move(rule));
    return fields.finish();
  }

  Status read_confidence(JsonFields& fields) {
    double threshold = 0;
    MOEC_TRY(fields.number("confidence", threshold));
    if (!(threshold > 0 && threshold <= 1))
      return fields.bad("confidence",
                        fmt::format("is {}, must be a share above 0 and at most 1", threshold));
    // With one variant, a threshold could never change the choice.
    if (forms_.size() < 2)
      return fail("policy.confidence",
                  fmt::format("{}: confidence needs several top-k variants, there is only {}",
                              file_, forms_.front().name),
                  "pass several variants, such as --top-k 1,2");
    policy_.confidence = threshold;
    return {};
  }

  const std::vector<TopKVariant>& forms_;
  const ExpertGrid& grid_;
  const std::string& file_;
  TopKPolicy policy_;
};

}  // namespace

Result<size_t> find_form(std::string_view text, const std::vector<TopKVariant>& forms,
                         const ExpertGrid& grid, const std::string& what) {
  MOEC_ASSIGN(const std::vector<TopKVariant> wanted, parse_top_k_variants(text, grid, what));
  // A text that lists several variants does not identify one of them.
  const auto found =
      wanted.size() == 1 ? std::find(forms.begin(), forms.end(), wanted.front()) : forms.end();
  if (found != forms.end()) return static_cast<size_t>(found - forms.begin());
  return fail("policy.form", fmt::format("{}: '{}' is not one of the top-k variants", what, text),
              fmt::format("use one of {}", names_of(forms)));
}

Result<TopKPolicy> read_top_k_policy(const std::string& path, const std::vector<TopKVariant>& forms,
                                     const ExpertGrid& grid) {
  MOEC_ASSIGN(const std::string text, read_user_text(path, "policy.file"));
  const JsonReport report(text, path, JsonCodes::by_prefix("policy", kPolicyShape));
  MOEC_ASSIGN(const JsonValue value, report.parse());
  MOEC_ASSIGN(JsonFields fields, JsonFields::of(report, value));
  return PolicyReader(forms, grid, path).read(std::move(fields));
}

std::string form_for_battery(const std::vector<BatteryRule>& rules, double charge) {
  for (const BatteryRule& rule : rules)
    // The rules ascend, so the first match has the lowest threshold.
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
