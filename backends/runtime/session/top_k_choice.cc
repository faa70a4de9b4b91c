#include "backends/runtime/session/top_k_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/manifest/top_k.h"
#include "ir/experts/top_k_policy.h"

namespace moec {
namespace {

constexpr std::string_view kPolicy = "policy";
constexpr const char* kFlag = "--top-k";

// Applies the policy of the request: battery, category or confidence.
class PolicyChooser {
 public:
  PolicyChooser(const Manifest& manifest, const TopKRequest& request, TopKChoice& choice)
      : manifest_(manifest), top_k_(*manifest.top_k), request_(request), choice_(choice) {}

  Status choose() {
    const int given =
        request_.battery.has_value() + !request_.category.empty() + request_.confidence.has_value();
    if (given > 1)
      return fail("policy.several", "--battery, --category and --confidence are mutually exclusive",
                  "pass only one of them");
    if (request_.battery) return by_battery(*request_.battery);
    if (!request_.category.empty()) return by_category();
    if (request_.confidence) return by_confidence(*request_.confidence);
    if (top_k_.confidence) return by_confidence(top_k_.confidence->threshold);
    return fail("policy.nothing",
                "--top-k policy needs a battery charge, a category or a confidence",
                "pass --battery, --category or --confidence");
  }

 private:
  static tl::unexpected<Diagnostics> no_rule(const std::string& cause) {
    return fail("policy.no_rule", cause,
                "export with such rules in --top-k-policy, or pass a variant as --top-k");
  }

  static Status check_share(double number, const char* flag, bool with_zero) {
    // NaN fails, because <= is false for NaN.
    if (number <= 1 && (number > 0 || (with_zero && number == 0))) return {};
    return fail("policy.number", fmt::format("{} is {}", flag, number),
                with_zero ? "pass a charge from 0 to 1" : "pass a share above 0 and up to 1");
  }

  Status take(const std::string& name) {
    // The manifest check guarantees that every rule names a variant (check_top_k.cc).
    const auto& forms = choice_.forms;
    const auto found = std::find_if(forms.begin(), forms.end(),
                                    [&](const TopKVariant& form) { return form.name == name; });
    choice_.form = found == forms.end() ? 0 : static_cast<size_t>(found - forms.begin());
    return {};
  }

  Status by_battery(double charge) {
    MOEC_TRY(check_share(charge, "--battery", true));
    if (top_k_.battery.empty()) return no_rule("the export has no battery rules");
    choice_.reason = fmt::format("battery {}", charge);
    return take(form_for_battery(top_k_.battery, charge));
  }

  Status by_category() {
    if (top_k_.categories.empty()) return no_rule("the export has no category rules");
    const std::string* form = form_for_category(top_k_.categories, request_.category);
    if (!form)
      return no_rule(fmt::format("the export has no rule for category {}", request_.category));
    choice_.reason = fmt::format("category {}", request_.category);
    return take(*form);
  }

  Status by_confidence(double threshold) {
    MOEC_TRY(check_share(threshold, "--confidence", false));
    if (choice_.forms.size() < 2)
      return fail("policy.confidence", "the export has a single top-k variant",
                  "export with several variants, such as --top-k 1,2");
    for (const manifest::Shard& shard : manifest_.shards)
      if (routes(shard.kind) && shard.routing && !is_router(shard.kind))
        return fail("policy.confidence",
                    "confidence-based top-k needs the router in a separate shard",
                    "export with --routing host", {.shard = shard.name});
    choice_.threshold = threshold;
    choice_.reason = fmt::format("confidence {}", threshold);
    return {};
  }

  const Manifest& manifest_;
  const manifest::TopK& top_k_;
  const TopKRequest& request_;
  TopKChoice& choice_;
};

// Returns the fraction of the sum of `all` that belongs to experts with a nonzero weight in `some`.
double share_of(std::span<const float> some, std::span<const float> all) {
  double on_some = 0, sum = 0;
  for (size_t e = 0; e < all.size(); ++e) {
    sum += all[e];
    if (some[e] != 0) on_some += all[e];
  }
  // Without any weight, a share of 0 is below the threshold and selects the largest k.
  return sum > 0 ? on_some / sum : 0;
}

}  // namespace

int64_t TopKChoice::largest() const {
  // With a threshold, any variant can run.
  if (!threshold) return forms.empty() ? 0 : forms[form].largest();
  int64_t most = 0;
  for (const TopKVariant& each : forms) most = std::max(most, each.largest());
  return most;
}

std::vector<size_t> TopKChoice::forms_of(int64_t layer) const {
  std::map<int64_t, size_t> by_k;
  // Variants with the same k in this layer have the same router; try_emplace() keeps the first.
  for (size_t i = 0; i < forms.size(); ++i) by_k.try_emplace(forms[i].layers.at(layer), i);
  std::vector<size_t> ascending;
  for (const auto& [k, i] : by_k) ascending.push_back(i);
  return ascending;
}

Result<TopKChoice> choose_top_k(const Manifest& manifest, const TopKRequest& request) {
  TopKChoice choice;
  choice.forms = top_k_variants(manifest);
  // An empty request keeps variant 0, the default.
  if (request == TopKRequest()) return choice;
  if (choice.forms.empty())
    return fail(
        "session.top_k", "the export has no top-k variants",
        "export with --top-k 1,2, or pass --sample-top-k to sample among the likeliest tokens");
  const bool by_rule = request.battery || !request.category.empty() || request.confidence;
  const bool policy = request.form == kPolicy || (request.form.empty() && by_rule);
  if (by_rule && !policy)
    return fail(
        "policy.alone",
        fmt::format("--top-k {} names a variant, but another flag selects one too", request.form),
        "pass --top-k policy, or omit --battery, --category and --confidence");
  if (policy) {
    MOEC_TRY(PolicyChooser(manifest, request, choice).choose());
    return choice;
  }
  MOEC_ASSIGN(choice.form, find_form(request.form, choice.forms, top_k_grid(manifest), kFlag));
  return choice;
}

std::string describe_top_k(const TopKChoice& choice, const TopKCounts& counts) {
  if (choice.forms.empty()) return {};
  if (!choice.threshold)
    return fmt::format("top-k variant {}{}", choice.forms[choice.form].name,
                       choice.reason.empty() ? "" : fmt::format(" ({})", choice.reason));
  int64_t all = 0;
  for (const auto& [k, count] : counts) all += count;
  std::vector<std::string> parts;
  for (const auto& [k, count] : counts)
    parts.push_back(fmt::format("{} expert{} for {:.1f} %", k, k == 1 ? "" : "s",
                                100 * static_cast<double>(count) / static_cast<double>(all)));
  return fmt::format("top-k by {}: {} of {} tokens in layers", choice.reason,
                     fmt::join(parts, ", "), all);
}

std::vector<size_t> confident_choice(std::span<const Rows> by_k, double threshold) {
  std::vector<size_t> chosen;
  const Rows& largest = by_k.back();
  for (int64_t t = 0; t < largest.count(); ++t) {
    size_t k = 0;
    while (k + 1 < by_k.size() && share_of(by_k[k].row(t), largest.row(t)) < threshold) ++k;
    chosen.push_back(k);
  }
  return chosen;
}

}  // namespace moec
