// Which form of top-k a session runs (ir/experts/top_k_forms.h): one for all steps, that of a rule
// of the manifest, or for each layer and token the one of which the layer's router is sure enough.
//
// By confidence, the router of a layer, a shard of its own, runs once for each different k that the
// forms have in the layer. With the routing weights w of the largest k, the share of a smaller one
// is
//
//   c(k) = Σ over the experts e that k chooses of w(e), divided by Σ over all e of w(e)
//
// and a token takes the routing weights of the smallest k with c(k) >= threshold, as the router
// gives them for this k: so each token's sum is that of the model with k experts. With k = 1 and 2
// of a softmax that is renormalised, c(1) = p1 / (p1 + p2), and p1 - p2 >= margin of normalised
// weights (adaptive gating, arXiv 2310.07188) is c(1) >= (1 + margin) / 2. Taking experts until a
// share of the mass is reached is dynamic routing (arXiv 2403.07652), here among the exported k.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/manifest/manifest.h"
#include "backends/reference/rows.h"
#include "ir/experts/top_k_forms.h"

namespace moec {

// What a user asks for. `form` is the text of a form, "policy", or empty: the default form, or the
// policy where one of the others is given. With "policy" alone, the manifest's confidence.
struct TopKRequest {
  std::string form;
  std::optional<double> battery;     // charge, 0 to 1
  std::string category;              // empty: not given
  std::optional<double> confidence;  // threshold, above 0 up to 1
  bool operator==(const TopKRequest&) const = default;
};

struct TopKChoice {
  std::vector<TopKForm> forms;      // of the export; empty: it has none
  size_t form = 0;                  // that runs
  std::optional<double> threshold;  // by confidence instead
  std::string reason;               // "battery 0.1", "confidence 0.9"; empty: asked for, or default

  const TopKForm* chosen() const { return forms.empty() ? nullptr : &forms[form]; }
  // The most experts that a token takes in any layer; 0 without forms.
  int64_t largest() const;
  // With a threshold: the forms with the different k of a layer, the smallest first.
  std::vector<size_t> forms_of(int64_t layer) const;
};

// Errors: session.top_k (the export has no forms), policy.several (more than one of battery,
// category and confidence), policy.alone (one of them beside a form), policy.nothing ("policy", but
// nothing to choose by), policy.no_rule (the manifest has no rules of that kind, or none for the
// category), policy.number (a charge or a threshold that cannot be), policy.confidence (routers are
// no shards of their own, or the forms are one), policy.form, those of parse_top_k_forms().
Result<TopKChoice> choose_top_k(const Manifest& manifest, const TopKRequest& request);

// For each token of these routing weights, by the k of a layer in ascending order, the place of the
// smallest one that is sure enough. The rows of all have one shape.
std::vector<size_t> confident_choice(std::span<const Rows> by_k, double threshold);

// What became of a choice by confidence: k → tokens × layers.
using TopKCounts = std::map<int64_t, int64_t>;

// "top-k form 2", or by confidence how many experts tokens took; empty without forms.
std::string describe_top_k(const TopKChoice& choice, const TopKCounts& counts);

}  // namespace moec
