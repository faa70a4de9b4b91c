// Checks --top-k, --top-k-policy and --capacity against a model and its target.
#pragma once

#include <vector>

#include "frontends/compile/compile_options.h"
#include "ir/model/plan.h"

namespace moec {

// Returns the top-k variants of compile.choice.top_k; none if that option is empty. Errors, in
// addition to those of parse_top_k_variants():
//   top_k.fixed        the family's routers always select the same number of experts
//   top_k.routing      the routing form runs all experts
//   top_k.packaging    several variants for Core ML packages without functions
//   top_k.ane_book     several variants for the ane-book runtimes
Result<std::vector<TopKVariant>> plan_top_k(const CompileOptions& compile, const ModelConfig& model,
                                            bool ane_book);

// Reads the rules for the plan's variants from the file compile.choice.policy; returns no rules if
// that option is empty. Errors: those of read_top_k_policy(); policy.no_forms (the plan has no
// variants); policy.confidence (routers are not separate shards).
Result<TopKPolicy> plan_top_k_policy(const CompileOptions& compile, const Plan& plan);

// Checks --capacity. Errors: capacity.routing (the routing form runs all experts),
// capacity.no_experts.
Status check_capacity(const PassOptions& passes, const ModelConfig& model);

// Returns the expert grid of a model with the largest top-k of `forms`, or the model's own if there
// are none.
ExpertGrid grid_of_forms(const ModelConfig& model, const std::vector<TopKVariant>& forms);

}  // namespace moec
