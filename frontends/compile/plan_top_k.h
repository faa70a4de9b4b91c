// The forms of top-k of an export: what --top-k and --top-k-policy say of a model and its target.
#pragma once

#include <vector>

#include "frontends/compile/compile_options.h"
#include "ir/model/plan.h"

namespace moec {

// The forms of compile.choice.top_k; none where it is empty. Errors: those of parse_top_k_forms();
// top_k.fixed (the score of the family chooses a fixed number), top_k.routing (a routing form that
// chooses no experts), top_k.packaging (several forms in Core ML packages that do not hold several
// functions), top_k.ane_book.
Result<std::vector<TopKForm>> plan_top_k(const CompileOptions& compile, const ModelConfig& model,
                                         bool ane_book);

// The rules of compile.choice.policy for these forms; none where it is empty. Errors: those of
// read_top_k_policy(); policy.no_forms; policy.confidence where routers are no shards of their own.
Result<TopKPolicy> plan_top_k_policy(const CompileOptions& compile, const Plan& plan);

// Checks the factor of --capacity. Errors: capacity.routing (a routing form that chooses no
// experts), capacity.no_experts.
Status check_capacity(const PassOptions& passes, const ModelConfig& model);

// The grid of a model with the most experts that a token takes in any of these forms.
ExpertGrid grid_of_forms(const ModelConfig& model, const std::vector<TopKForm>& forms);

}  // namespace moec
