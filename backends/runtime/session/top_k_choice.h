// Selects the top-k variant of a session (ir/experts/top_k_variants.h): a variant that the user
// requests, one selected by a rule of the manifest, or one per layer and token, selected by the
// router's confidence.
//
// Selection by confidence requires the router in a separate shard. It runs once for each distinct k
// of the variants in the layer. Let w be the routing weights of the largest k. The share of a
// smaller k is
//
//   c(k) = Σ over the experts e that k chooses of w(e), divided by Σ over all e of w(e)
//
// A token uses the routing weights that the router returns for the smallest k with c(k) >=
// threshold, so their sum is that of the model with k experts. For k = 1 and 2 with a renormalised
// softmax, c(1) = p1 / (p1 + p2). The margin rule p1 - p2 >= margin on normalised weights (adaptive
// gating, arXiv 2310.07188) is c(1) >= (1 + margin) / 2. Adding experts until a share of the mass
// is reached is dynamic routing (arXiv 2403.07652), here restricted to the exported k.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/rows.h"
#include "ir/experts/top_k_variants.h"

namespace moec {

// Request of a user. `form` is the text of a variant, "policy" or empty. An empty `form` means
// "policy" if another field is set, otherwise the default variant. "policy" without other fields
// uses the confidence of the manifest.
struct TopKRequest {
  std::string form;
  std::optional<double> battery;     // charge, 0 to 1
  std::string category;              // empty: not set
  std::optional<double> confidence;  // threshold, above 0 up to 1
  bool operator==(const TopKRequest&) const = default;
};

struct TopKChoice {
  std::vector<TopKVariant> forms;   // of the export; empty: the export has no variants
  size_t form = 0;                  // index of the variant that runs
  std::optional<double> threshold;  // if set, variants are selected by confidence instead of `form`
  std::string reason;               // "battery 0.1", "confidence 0.9"; empty: requested or default

  const TopKVariant* chosen() const { return forms.empty() ? nullptr : &forms[form]; }
  // Maximum number of experts per token in any layer; 0 without variants.
  int64_t largest() const;
  // Returns one variant per distinct k of the layer, in ascending order of k.
  std::vector<size_t> forms_of(int64_t layer) const;
};

// Resolves a request. Errors:
//
//   session.top_k      the export has no variants
//   policy.several     more than one of battery, category and confidence
//   policy.alone       one of them combined with a variant
//   policy.nothing     "policy" without a criterion, and the manifest has no confidence
//   policy.no_rule     the manifest has no rules of that kind, or none for the category
//   policy.number      a charge or threshold out of range
//   policy.confidence  routers share a shard with experts, or there is a single variant
//   policy.form        and those of parse_top_k_variants()
Result<TopKChoice> choose_top_k(const Manifest& manifest, const TopKRequest& request);

// Returns, per token, the index into `by_k` of the smallest k whose share reaches `threshold`.
// `by_k` contains the routing weights for each k, in ascending order and with equal shapes.
std::vector<size_t> confident_choice(std::span<const Rows> by_k, double threshold);

// Counts of choices by confidence: k → (token, layer) pairs.
using TopKCounts = std::map<int64_t, int64_t>;

// Returns "top-k variant 2", or the distribution of experts per token for a choice by confidence;
// empty if the export has no variants.
std::string describe_top_k(const TopKChoice& choice, const TopKCounts& counts);

}  // namespace moec
