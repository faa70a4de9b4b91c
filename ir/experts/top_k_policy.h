// When a runtime takes which form of top-k (top_k_forms.h), as a user says it in a JSON file:
//
//   {"battery": [{"below": 0.2, "form": "1"}, {"below": 0.5, "form": "L0-1:1;*:2"}],
//    "categories": [{"category": "chat", "form": "1"}],
//    "confidence": 0.9}
//
// Each member may be absent. None of these numbers has a default: what a form costs in quality
// depends on the model, and is to be measured (`moec compare A B`, `moec validate --top-k`).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/experts/top_k_forms.h"

namespace moec {

// The form for a battery charged less than `below`, a number from 0 (empty) to 1 (full).
struct BatteryRule {
  double below = 0;
  std::string form;
  bool operator==(const BatteryRule&) const = default;
};

// The form for texts of a category, as `moec probe` and `moec analyze` name them.
struct CategoryRule {
  std::string category, form;
  bool operator==(const CategoryRule&) const = default;
};

struct TopKPolicy {
  std::vector<BatteryRule> battery;      // ascending
  std::vector<CategoryRule> categories;  // each category once
  // In each layer and for each token, a router's smallest k whose share of the routing weights of
  // the largest k is at least this (backends/runtime/session/top_k_choice.h).
  std::optional<double> confidence;
  bool empty() const { return battery.empty() && categories.empty() && !confidence; }
  bool operator==(const TopKPolicy&) const = default;
};

// Reads such a file; forms may be written as parse_top_k_forms() takes them, and are renamed to the
// names of `forms`. Errors: policy.file, policy.syntax, policy.duplicate_key, policy.missing_field,
// policy.unknown_field, policy.bad_value (a number that cannot be, a rule twice), policy.form (none
// of the forms), each with file and line; policy.confidence (a threshold with a single form).
Result<TopKPolicy> read_top_k_policy(const std::string& path, const std::vector<TopKForm>& forms,
                                     const ExpertGrid& grid);

// Which of the forms a text names, by any way to write it. Errors: policy.form; those of
// parse_top_k_forms().
Result<size_t> find_form(std::string_view text, const std::vector<TopKForm>& forms,
                         const ExpertGrid& grid, const std::string& what);

// The name of the form that the rules choose for this charge; empty: none, so the default.
std::string form_for_battery(const std::vector<BatteryRule>& rules, double charge);

// The same for a category; null: no rule names it.
const std::string* form_for_category(const std::vector<CategoryRule>& rules,
                                     std::string_view category);

}  // namespace moec
