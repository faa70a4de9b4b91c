// The user's rules for choosing the top-k variant (top_k_variants.h) at run time, as a JSON file:
//
//   {"battery": [{"below": 0.2, "form": "1"}, {"below": 0.5, "form": "L0-1:1;*:2"}],
//    "categories": [{"category": "chat", "form": "1"}],
//    "confidence": 0.9}
//
// Each member is optional. No number has a default, because a variant's loss of quality depends on
// the model. Measure the loss with `moec compare A B` or `moec validate --top-k`.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/base/diagnostics.h"
#include "ir/experts/top_k_variants.h"

namespace moec {

// Selects a variant for a charge less than `below`. Charges range from 0 (empty) to 1 (full).
struct BatteryRule {
  double below = 0;
  std::string form;
  bool operator==(const BatteryRule&) const = default;
};

// Selects a variant for texts of a category, with the name that `moec probe` and `moec analyze`
// use.
struct CategoryRule {
  std::string category, form;
  bool operator==(const CategoryRule&) const = default;
};

struct TopKPolicy {
  std::vector<BatteryRule> battery;      // ascending
  std::vector<CategoryRule> categories;  // each category once
  // Per layer and token, the router uses the smallest k whose share of the largest variant's
  // routing weights is at least this (backends/runtime/session/top_k_choice.h).
  std::optional<double> confidence;
  bool empty() const { return battery.empty() && categories.empty() && !confidence; }
  bool operator==(const TopKPolicy&) const = default;
};

// Reads a policy. Variants may have any spelling that parse_top_k_variants() accepts; the result
// has the names in `forms`. Errors: policy.file, policy.syntax, policy.duplicate_key,
// policy.missing_field, policy.unknown_field, policy.bad_value (a number out of range, a rule
// twice), policy.form (not one of `forms`), each with file and line; policy.confidence (a threshold
// with a single variant).
Result<TopKPolicy> read_top_k_policy(const std::string& path, const std::vector<TopKVariant>& forms,
                                     const ExpertGrid& grid);

// Returns the index in `forms` of the variant that the text names, in any spelling. Errors:
// policy.form, and those of parse_top_k_variants().
Result<size_t> find_form(std::string_view text, const std::vector<TopKVariant>& forms,
                         const ExpertGrid& grid, const std::string& what);

// Returns the name of the variant for this charge. Empty: no rule applies; use the default.
std::string form_for_battery(const std::vector<BatteryRule>& rules, double charge);

// Returns the name of the variant for a category, or null if no rule names the category.
const std::string* form_for_category(const std::vector<CategoryRule>& rules,
                                     std::string_view category);

}  // namespace moec
